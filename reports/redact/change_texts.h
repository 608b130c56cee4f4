#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/model/shape.h"

namespace dlprobe {

/// Where a text stands in a document: "name" of "host"; in a list the key of the list.
struct TextPlace {
  std::string_view owner;
  std::string_view key;
};

/// What is made of the texts of a document. Values of a set that the shape lists are none.
struct TextChange {
  std::function<std::string(const TextPlace& place, const std::string& text)> text;
  /// Of a list of texts that is the command line of a process.
  std::function<std::vector<std::string>(const std::vector<std::string>& words)> command;
};

/// Fills `into`, an empty object of that shape, with what `from` has, its texts changed: in the
/// order in which a file has them.
void change_texts(const Shape& shape, const void* from, void* into, const TextChange& change);

}  // namespace dlprobe
