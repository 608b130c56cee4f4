#pragma once

#include <string_view>

namespace dlprobe {

/// Gives `text` to the reader of that name, and to whatever works on what it reads; false if there
/// is none. Ends the program where the answer breaks a promise: a report that cannot be read again,
/// a token that was not masked.
bool text_one(std::string_view reader, std::string_view text);

}  // namespace dlprobe
