#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dlprobe {

/// For a paragraph or a table cell of Markdown: shows as it is, on one line, and links nothing.
std::string escape_markdown(std::string_view text);

/// The longest run of backquotes.
size_t most_backquotes(std::string_view text);

/// A code span of Markdown, with as many backquotes as `text` needs: nothing in it is active.
std::string markdown_code(std::string_view text);

/// The same in a cell of a table, which a '|' would end even in code.
std::string markdown_cell(std::string_view text);

}  // namespace dlprobe
