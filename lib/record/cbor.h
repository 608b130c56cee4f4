#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlprobe {

/// The kinds of CBOR items that recordings are made of: definite lengths, no tags (RFC 8949).
enum class CborKind : uint8_t {
  kUnsigned = 0,
  kNegative = 1,
  kBytes = 2,
  kText = 3,
  kArray = 4,
  kMap = 5,
  kSimple = 7,
};

/// Appends the first bytes of an item: a number, or how many bytes or items follow.
void append_head(std::string& out, CborKind kind, uint64_t argument);
/// A CBOR text must be UTF-8 and a process may call itself anything: other bytes go as a byte
/// string.
void append_text(std::string& out, std::string_view text);
void append_boolean(std::string& out, bool value);
/// In four bytes if that loses nothing, else in eight.
void append_real(std::string& out, double value);

/// Reads the items of one record in their order. Bounds what a damaged or hostile one may cost: no
/// length is trusted beyond the bytes that are there. Every read says whether there was such an
/// item; after one that was not, nothing more can be read.
class CborReader {
 public:
  explicit CborReader(std::string_view bytes) : rest_(bytes) {}

  bool is_at_end() const { return rest_.empty(); }
  /// The next item is a map; a value or the reason why there is none.
  bool is_before_map() const;

  /// Text, or the bytes of a name that is not UTF-8; points into what is read.
  bool text(std::string_view& out);
  /// A whole number: `magnitude`, or if it is negative -1 - `magnitude`.
  bool integer(uint64_t& magnitude, bool& is_negative);
  bool boolean(bool& out);
  /// Whole numbers are taken as well.
  bool real(double& out);
  /// How many items follow; nothing if it is no array.
  std::optional<size_t> array();
  /// How many pairs follow; nothing if it is no map.
  std::optional<size_t> map();
  /// Passes over one item, whatever it is.
  bool skip();

  /// A name was read that this dlprobe does not know; `key` is where, innermost first.
  void note_unknown_name(std::string_view name) { unknown_name_ = name; }
  void note_key(std::string_view key);
  /// "`cause` is "of-the-future""; empty if no name was unknown.
  std::string unknown_name() const;

 private:
  struct Head {
    CborKind kind;
    unsigned info;  // the low five bits
    uint64_t argument;
  };
  std::optional<Head> head();
  std::optional<size_t> count_of(CborKind kind, size_t items_each);
  bool skip(int depth);

  std::string_view rest_;
  size_t items_ = 0;
  std::string_view unknown_name_;
  std::string_view key_;
};

}  // namespace dlprobe
