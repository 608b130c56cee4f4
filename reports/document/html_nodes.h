#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <pugixml.hpp>

#include "reports/document/document.h"

namespace dlprobe {

/// The frame of the page and its own style and script, compiled in. None has a text of a report.
struct HtmlAssets {
  std::string_view head;    ///< up to the title
  std::string_view style;   ///< with its element, up to the beginning of the body
  std::string_view script;  ///< with its element
};
const HtmlAssets& html_assets();

}  // namespace dlprobe

/// Nodes of the page. pugixml escapes every text and attribute when it writes them.
namespace dlprobe::document {

using Attributes = std::initializer_list<std::pair<const char*, std::string>>;

/// An element at the end of `parent`, on a line of its own where `parent` is not text.
pugi::xml_node add_element(pugi::xml_node parent, const char* name, Attributes attributes = {});

void add_text(pugi::xml_node parent, std::string_view text);

/// An element with a text in it.
pugi::xml_node add_text_element(pugi::xml_node parent, const char* name, std::string_view text,
                                Attributes attributes = {});

/// The drawing, and how many nodes it leaves out.
void add_graph(pugi::xml_node parent, const Graph& graph);

/// A line for each row; of many rows a small square each.
void add_grid(pugi::xml_node parent, const Grid& grid);

/// The charts below each other, and the values that the script shows.
void add_charts(pugi::xml_node parent, const Charts& all);

}  // namespace dlprobe::document
