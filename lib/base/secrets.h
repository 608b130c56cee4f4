#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlprobe {

/// What stands in place of a secret.
inline constexpr std::string_view kMasked = "***";

/// A command line without its secrets: the values whose name is one of a secret (is_secret());
/// those of options of one letter that a known client has for its password (mysql -pSECRET, sshpass
/// -p SECRET, redis-cli -a SECRET; elsewhere -p is a port), also where a line of commands is one
/// argument; the user information of URLs; the shapes of AWS, Hugging Face, GitHub, Slack, OpenAI
/// and JWT tokens; 32 or more hexadecimal digits, UUIDs, long random-looking words. Prefers to mask
/// too much. The number of arguments stays.
std::vector<std::string> mask_secrets(const std::vector<std::string>& arguments);

/// `text` without the tokens of services, by their published shapes alone; nothing where it has
/// none. For names of files: other long random-looking words are the names of caches.
std::optional<std::string> mask_tokens(std::string_view text);

}  // namespace dlprobe
