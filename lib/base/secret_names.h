#pragma once

#include <string_view>

namespace dlprobe {

/// Whether a value with this name is a secret: an option ("--api-key"), a variable
/// ("MYSQL_PWD"), a key of JSON or of a query. By the name's words, as hyphens, underscores, points
/// and capitals part them: passwords in any of the languages that most people speak, tokens,
/// secrets, keys, credentials, authorisations, cookies, PINs, numbers of cards. A word that is also
/// used for other things needs a value that is none of them: "--key-dim 64", "--sort-key length",
/// "--token-type bpe" and "--key-file /k.pem" are no secrets; "--tokenizer", "--author" and
/// "--passes" hold none of the words.
bool is_secret(std::string_view name, std::string_view value);

/// Whether the header `name` of "name: value" has a secret; stricter, for texts say "key: ..." of
/// anything.
bool is_secret_header(std::string_view name);

}  // namespace dlprobe
