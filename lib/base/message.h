#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/base/fields.h"
#include "lib/base/names.h"
#include "lib/base/own_words.h"

namespace dlprobe {

/// Whose words a part of a message is made of, and what they name.
enum class PartKind {
  kOwn,   ///< dlprobe's own words and numbers, pids among them
  kPath,  ///< a path, or the name of a file without its folder
  kHost,
  kUser,
  kName,  ///< a word that somebody chose: a function, a variable, what a process calls itself
  kText,  ///< free text of somebody else: an exception, a line of the kernel, an argument
};
template <>
struct Names<PartKind> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"own", "path", "host", "user", "name", "text"});
};

/// A piece of a message, which is of one kind.
struct MessagePart {
  PartKind kind = PartKind::kOwn;
  std::string text;
  bool operator==(const MessagePart&) const = default;
};
constexpr void list_fields(auto&& field, Of<MessagePart> /*of*/) {
  field("kind", &MessagePart::kind, "whose words these are, and what they name");
  field("text", &MessagePart::text, "may be hostile where they are not dlprobe's own");
}

/// A sentence of dlprobe's. It remembers which pieces are dlprobe's own and which name something of
/// the user's. A std::string does not convert to it: whoever puts one in says what it is, by own()
/// or by one of the functions below.
class Message {
 public:
  Message() = default;
  // NOLINTBEGIN(*-explicit-constructor,*-explicit-conversions): own words are a message
  Message(const char* literal) : Message(OwnWords(literal)) {}
  Message(OwnWords words) : Message(PartKind::kOwn, std::move(words)) {}
  // NOLINTEND(*-explicit-constructor,*-explicit-conversions)
  /// Of one part; of none where `text` is empty.
  Message(PartKind kind, std::string text);
  explicit Message(const std::vector<MessagePart>& parts);

  Message& operator+=(const Message& more);
  friend Message operator+(Message left, const Message& right) { return left += right; }

  bool empty() const { return parts_.empty(); }
  /// No two parts of dlprobe's own words follow one another, and none is empty.
  const std::vector<MessagePart>& parts() const { return parts_; }
  /// All parts as one text.
  std::string plain() const;

  bool operator==(const Message&) const = default;

 private:
  std::vector<MessagePart> parts_;
};

/// A path, or the name of a file without its folder.
inline Message as_path(std::string_view path) {
  return {PartKind::kPath, std::string(path)};
}
/// The name of a machine.
inline Message as_host(std::string_view host) {
  return {PartKind::kHost, std::string(host)};
}
/// A word that somebody chose: a function, a variable, what a process calls itself.
inline Message as_name(std::string_view name) {
  return {PartKind::kName, std::string(name)};
}
/// Free text of somebody else.
inline Message as_text(std::string_view text) {
  return {PartKind::kText, std::string(text)};
}

/// `parts`, with ", " between them.
Message joined(const std::vector<Message>& parts);

/// What `make` says of each of them, with ", " between.
template <class Items, class Make>
Message joined(const Items& items, Make make) {
  std::vector<Message> parts;
  parts.reserve(items.size());
  std::ranges::transform(items, std::back_inserter(parts), make);
  return joined(parts);
}

/// Own words with a "{}" for each of so many parts.
template <size_t Parts>
struct MessageForm {
  std::string_view text;
  // NOLINTNEXTLINE(*-explicit-constructor,*-explicit-conversions): say("...") is how it is used
  consteval MessageForm(const char* form) : text(form) {
    size_t places = 0;
    for (size_t at = text.find("{}"); at != std::string_view::npos; at = text.find("{}", at + 2))
      ++places;
    if (places != Parts) throw std::invalid_argument("a form has one {} for each part");
  }
};

/// The form as text; see say().
Message filled_in(std::string_view form, const std::vector<Message>& parts);

/// The form with its parts in place: say("{} of {}", as_path(file), counted(3, "image")). Whole
/// numbers are put in as they are.
template <class... Parts>
Message say(std::type_identity_t<MessageForm<sizeof...(Parts)>> form, const Parts&... parts) {
  [[maybe_unused]] const auto part_of = []<class Part>(const Part& part) -> Message {
    if constexpr (std::integral<Part>) {
      return own(part);
    } else {
      return part;
    }
  };
  return filled_in(form.text, {part_of(parts)...});
}

}  // namespace dlprobe
