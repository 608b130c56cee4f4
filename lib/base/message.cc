#include "lib/base/message.h"

namespace dlprobe {

Message::Message(PartKind kind, std::string text) {
  if (!text.empty()) parts_.push_back({.kind = kind, .text = std::move(text)});
}

Message::Message(const std::vector<MessagePart>& parts) {
  for (const MessagePart& part : parts)
    *this += Message(part.kind, part.text);
}

Message& Message::operator+=(const Message& more) {
  for (const MessagePart& part : more.parts()) {
    const bool goes_on =
        part.kind == PartKind::kOwn && !parts_.empty() && parts_.back().kind == PartKind::kOwn;
    if (goes_on) {
      parts_.back().text += part.text;
    } else {
      parts_.push_back(part);
    }
  }
  return *this;
}

std::string Message::plain() const {
  std::string text;
  for (const MessagePart& part : parts_)
    text += part.text;
  return text;
}

Message joined(const std::vector<Message>& parts) {
  Message all;
  for (const Message& part : parts)
    all += (all.empty() ? "" : ", ") + part;
  return all;
}

Message filled_in(std::string_view form, const std::vector<Message>& parts) {
  Message all;
  for (const Message& part : parts) {
    const size_t at = form.find("{}");
    all += own(form.substr(0, at)) + part;
    form.remove_prefix(at + 2);
  }
  return all + own(form);
}

}  // namespace dlprobe
