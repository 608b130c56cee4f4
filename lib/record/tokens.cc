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
class Masker {
 public:
  void mask(std::string& text) const {
    if (auto masked = mask_tokens(text)) text = std::move(*masked);
  }
  void mask(Message& message) const {
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
  void mask(std::optional<T>& value) const {
    if (value) mask(*value);
  }
  template <class T>
  void mask(Observed<T>& value) const {
    if (value) mask(*value);
  }
  template <class T>
  void mask(std::vector<T>& values) const {
    for (T& value : values)
      mask(value);
  }
  template <class T, size_t N>
  void mask(std::array<T, N>& values) const {
    for (T& value : values)
      mask(value);
  }
  template <Listed T>
  void mask(T& object) const {
    for_each_field<T>([&](const auto& field) { mask(object.*field.member); });
  }
  template <class T>
  void mask(T& /*number*/) const {}
};

}  // namespace

void mask_tokens(Record& record) {
  std::visit([](auto& each) { Masker().mask(each); }, record);
}

}  // namespace dlprobe
