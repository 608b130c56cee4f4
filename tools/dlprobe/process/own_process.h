#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlprobe {

/// A variable of dlprobe's own environment.
std::optional<std::string> own_environment(std::string_view name);

/// How many columns a person has at descriptor `fd`: COLUMNS of the environment if it is a number,
/// else the terminal's; `otherwise` where it is no terminal. From 40 to 160.
int columns_at(int fd, int otherwise);

/// Whether colours are welcome at `fd` where the user has not said: a terminal, and no NO_COLOR.
bool is_colorful(int fd);

/// Writes to standard output what is not a report. The exit code: a closed pipe is quiet, a full
/// disk says so; with either nobody has the text.
int print(std::string_view text);

/// One line on stderr, "dlprobe: " in front, control characters escaped.
void complain(std::string_view message);

}  // namespace dlprobe
