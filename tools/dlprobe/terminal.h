#pragma once

#include <string_view>

namespace dlprobe {

/// How many columns a person has at descriptor `fd`: COLUMNS of the environment if it is a number,
/// else the terminal's; `otherwise` where it is no terminal. From 40 to 160.
int columns_at(int fd, int otherwise);

/// Whether colours are welcome at `fd` where the user has not said: a terminal, and no NO_COLOR.
bool is_colorful(int fd);

/// Writes to standard output what is not a report. The exit code: a closed pipe is quiet, a full
/// disk says so; with either nobody has the text.
int print(std::string_view text);

}  // namespace dlprobe
