#pragma once

#include <string>
#include <string_view>

namespace dlprobe {

/// For the text of an HTML element and for an attribute in quotes.
std::string escape_html(std::string_view text);

/// For a paragraph or a table cell of Markdown: shows as it is, on one line, and links nothing.
std::string escape_markdown(std::string_view text);

/// A code span of Markdown, with as many backquotes as `text` needs: nothing in it is active.
std::string markdown_code(std::string_view text);

/// The same in a cell of a table, which a '|' would end even in code.
std::string markdown_cell(std::string_view text);

}  // namespace dlprobe
