#include "lib/record/tokens.h"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/fields.h"
#include "lib/base/message.h"
#include "lib/base/secrets.h"

namespace dlprobe {
namespace {

/// Walks the fields of a record. What holds no text costs nothing.
struct Masker {
  static void mask(std::string& text) {
    if (auto masked = mask_tokens(text)) text = std::move(*masked);
  }
  static void mask(Message& message) {
    std::vector<MessagePart> parts = message.parts();
    bool is_changed = false;
    for (MessagePart& part : parts) {
      auto masked = mask_tokens(part.text);
      if (!masked) continue;
      part.text = std::move(*masked);
      is_changed = true;
    }
    if (is_changed) message = Message(parts);
  }
  template <class T>
  static void mask(std::optional<T>& value) {
    if (value) mask(*value);
  }
  template <class T>
  static void mask(Observed<T>& value) {
    if (value) mask(*value);
  }
  template <class T>
  static void mask(std::vector<T>& values) {
    for (T& value : values)
      mask(value);
  }
  template <class T, size_t N>
  static void mask(std::array<T, N>& values) {
    for (T& value : values)
      mask(value);
  }
  template <Listed T>
  static void mask(T& object) {
    for_each_field<T>([&](const auto& field) { mask(object.*field.member); });
  }
  template <class T>
  static void mask(T& /*number*/) {}
};

}  // namespace

void mask_tokens(Record& record) {
  std::visit([](auto& each) { Masker::mask(each); }, record);
}

}  // namespace dlprobe
