#include "lib/record/cbor.h"

#include <bit>
#include <cmath>
#include <limits>

#include "lib/base/utf8.h"

namespace dlprobe {
namespace {

// What a damaged or hostile record may cost: the largest struct takes half a kilobyte.
constexpr size_t kMostItems = 2'000'000;
constexpr int kDeepest = 16;
constexpr unsigned kFalse = 20;
constexpr unsigned kTrue = 21;
constexpr unsigned kNull = 22;
constexpr unsigned kHalf = 25;
constexpr unsigned kSingle = 26;
constexpr unsigned kDouble = 27;

void append_big_endian(std::string& out, uint64_t value, unsigned bytes) {
  for (unsigned i = bytes; i-- > 0;)
    out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
}

char first_byte(CborKind kind, unsigned info) {
  return static_cast<char>(static_cast<unsigned char>((static_cast<unsigned>(kind) << 5U) | info));
}

}  // namespace

void append_head(std::string& out, CborKind kind, uint64_t argument) {
  if (argument < 24) {
    out += first_byte(kind, static_cast<unsigned>(argument));
    return;
  }
  unsigned power = 0;  // the argument takes 2^power bytes
  while (power < 3 && argument >> (8U << power) != 0)
    ++power;
  out += first_byte(kind, 24 + power);
  append_big_endian(out, argument, 1U << power);
}

void append_text(std::string& out, std::string_view text) {
  append_head(out, is_utf8(text) ? CborKind::kText : CborKind::kBytes, text.size());
  out += text;
}

void append_boolean(std::string& out, bool value) {
  out += first_byte(CborKind::kSimple, value ? kTrue : kFalse);
}

void append_real(std::string& out, double value) {
  // A double beyond the range of float must not be converted: that is undefined.
  const bool is_in_range = std::abs(value) <= std::numeric_limits<float>::max();
  if (is_in_range && static_cast<double>(static_cast<float>(value)) == value) {
    out += first_byte(CborKind::kSimple, kSingle);
    append_big_endian(out, std::bit_cast<uint32_t>(static_cast<float>(value)), 4);
  } else {
    out += first_byte(CborKind::kSimple, kDouble);
    append_big_endian(out, std::bit_cast<uint64_t>(value), 8);
  }
}

std::optional<CborReader::Head> CborReader::head() {
  if (rest_.empty() || ++items_ > kMostItems) return std::nullopt;
  const auto first = static_cast<unsigned char>(rest_.front());
  rest_.remove_prefix(1);
  Head head{.kind = static_cast<CborKind>(first >> 5U), .info = first & 0x1FU, .argument = 0};
  if (head.info < 24) {
    head.argument = head.info;
    return head;
  }
  if (head.info > 27) return std::nullopt;  // an indefinite length
  const size_t bytes = size_t{1} << (head.info - 24);
  if (rest_.size() < bytes) return std::nullopt;
  for (const char byte : rest_.substr(0, bytes))
    head.argument = (head.argument << 8U) | static_cast<unsigned char>(byte);
  rest_.remove_prefix(bytes);
  return head;
}

bool CborReader::is_before_map() const {
  return !rest_.empty() &&
         static_cast<unsigned char>(rest_.front()) >> 5U == static_cast<unsigned>(CborKind::kMap);
}

bool CborReader::text(std::string_view& out) {
  const auto found = head();
  if (!found || (found->kind != CborKind::kText && found->kind != CborKind::kBytes) ||
      found->argument > rest_.size()) {
    return false;
  }
  out = rest_.substr(0, found->argument);
  rest_.remove_prefix(found->argument);
  return true;
}

bool CborReader::integer(uint64_t& magnitude, bool& is_negative) {
  const auto found = head();
  if (!found) return false;
  magnitude = found->argument;
  is_negative = found->kind == CborKind::kNegative;
  return is_negative || found->kind == CborKind::kUnsigned;
}

bool CborReader::boolean(bool& out) {
  const auto found = head();
  if (!found || found->kind != CborKind::kSimple) return false;
  out = found->info == kTrue;
  return out || found->info == kFalse;
}

bool CborReader::real(double& out) {
  const auto found = head();
  if (!found) return false;
  if (found->kind == CborKind::kSimple && found->info == kSingle) {
    out = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(found->argument)));
    return true;
  }
  if (found->kind == CborKind::kSimple && found->info == kDouble) {
    out = std::bit_cast<double>(found->argument);
    return true;
  }
  out = static_cast<double>(found->argument);
  if (found->kind == CborKind::kNegative) out = -1 - out;
  return found->kind == CborKind::kUnsigned || found->kind == CborKind::kNegative;
}

std::optional<size_t> CborReader::count_of(CborKind kind, size_t items_each) {
  const auto found = head();
  if (!found || found->kind != kind || found->argument > rest_.size() / items_each) {
    return std::nullopt;
  }
  return found->argument;
}

std::optional<size_t> CborReader::array() {
  return count_of(CborKind::kArray, 1);
}

std::optional<size_t> CborReader::map() {
  return count_of(CborKind::kMap, 2);
}

bool CborReader::skip() {
  return skip(kDeepest);
}

bool CborReader::skip(int depth) {
  if (depth == 0) return false;
  const auto found = head();
  if (!found) return false;
  uint64_t items = 0;
  switch (found->kind) {
    case CborKind::kUnsigned:
    case CborKind::kNegative:
      return true;
    case CborKind::kBytes:
    case CborKind::kText:
      if (found->argument > rest_.size()) return false;
      rest_.remove_prefix(found->argument);
      return true;
    case CborKind::kArray:
      items = found->argument;
      break;
    case CborKind::kMap:
      if (found->argument > rest_.size()) return false;
      items = 2 * found->argument;
      break;
    case CborKind::kSimple:
      return (found->info >= kFalse && found->info <= kNull) || found->info >= kHalf;
    default:
      return false;  // a tag
  }
  if (items > rest_.size()) return false;
  for (uint64_t i = 0; i < items; ++i) {
    if (!skip(depth - 1)) return false;
  }
  return true;
}

void CborReader::note_key(std::string_view key) {
  if (key_.empty()) key_ = key;
}

std::string CborReader::unknown_name() const {
  if (unknown_name_.empty()) return {};
  return "`" + std::string(key_) + "` is \"" + to_valid_utf8(unknown_name_) + "\"";
}

}  // namespace dlprobe
