#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/fields.h"
#include "lib/base/message.h"
#include "lib/model/ids.h"
#include "lib/record/cbor.h"

namespace dlprobe {

/// How a value of type T stands in a recording: `write`, `read` (false: it is no such value), and
/// `is_there` (false: its key is left out, and a reader keeps the default).
template <class T>
struct Codec;

/// A Codec without its type, so that the code for a struct's fields exists once and not once for
/// each struct.
struct ValueCodec {
  void (*write)(std::string& out, const void* value);
  bool (*read)(CborReader& in, void* value);
  bool (*is_there)(const void* value);
};

/// One field of a struct as the codec needs it: its place in bytes instead of its type.
struct FieldCodec {
  std::string key;
  size_t offset;
  const ValueCodec* codec;
};
using FieldCodecs = std::vector<FieldCodec>;

/// How many of the fields of `object` are written.
size_t count_fields(const FieldCodecs& fields, const void* object);
/// Appends the pairs of a map, whose head is written by the caller.
void write_fields(std::string& out, const FieldCodecs& fields, const void* object);
/// Reads a map. A key that is missing leaves the default (an older writer, or an optional without a
/// value), a key that is not known is passed over (a newer one).
bool read_fields(CborReader& in, const FieldCodecs& fields, void* object);
/// A fact that could not be read is a map with this one key.
inline constexpr std::string_view kErrorKey = "!";
void write_error(std::string& out, const Error& error);
/// Nothing was read if it is not such a map.
std::optional<Error> read_error(CborReader& in, bool& is_good);
/// Nanoseconds on a clock. Those of more than two centuries are nonsense, and their differences
/// would overflow.
bool read_moment(CborReader& in, int64_t& out);

/// The fields of T, in the order of their list.
template <Listed T>
const FieldCodecs& field_codecs();

/// What is always written, whatever its value.
struct AlwaysThere {
  static bool is_there(const auto& /*value*/) { return true; }
};

template <Listed T>
struct Codec<T> : AlwaysThere {
  static void write(std::string& out, const T& value) {
    const FieldCodecs& fields = field_codecs<T>();
    append_head(out, CborKind::kMap, count_fields(fields, &value));
    write_fields(out, fields, &value);
  }
  static bool read(CborReader& in, T& value) { return read_fields(in, field_codecs<T>(), &value); }
};

template <>
struct Codec<bool> : AlwaysThere {
  static void write(std::string& out, bool value) { append_boolean(out, value); }
  static bool read(CborReader& in, bool& value) { return in.boolean(value); }
};

template <std::integral T>
struct Codec<T> : AlwaysThere {
  static void write(std::string& out, T value) {
    const auto bits = static_cast<uint64_t>(value);
    const bool is_negative = std::cmp_less(value, 0);
    append_head(out, is_negative ? CborKind::kNegative : CborKind::kUnsigned,
                is_negative ? ~bits : bits);
  }
  static bool read(CborReader& in, T& value) {
    uint64_t magnitude = 0;
    bool is_negative = false;
    if (!in.integer(magnitude, is_negative)) return false;
    if (is_negative && !std::in_range<int64_t>(magnitude)) return false;
    const auto bits = is_negative ? ~magnitude : magnitude;
    value = static_cast<T>(bits);
    return is_negative ? std::in_range<T>(static_cast<int64_t>(bits)) : std::in_range<T>(bits);
  }
};

template <>
struct Codec<double> {
  static bool is_there(double value) { return std::isfinite(value); }
  static void write(std::string& out, double value) { append_real(out, value); }
  static bool read(CborReader& in, double& value) { return in.real(value) && std::isfinite(value); }
};

template <>
struct Codec<std::string> : AlwaysThere {
  static void write(std::string& out, const std::string& value) { append_text(out, value); }
  static bool read(CborReader& in, std::string& value) {
    std::string_view text;
    const bool is_good = in.text(text);
    value = text;
    return is_good;
  }
};

/// A letter of the kernel's.
template <>
struct Codec<char> : AlwaysThere {
  static void write(std::string& out, char value) { append_text(out, {&value, 1}); }
  static bool read(CborReader& in, char& value) {
    std::string_view text;
    if (!in.text(text) || text.size() != 1) return false;
    value = text.front();
    return true;
  }
};

template <NamedEnum T>
struct Codec<T> : AlwaysThere {
  static void write(std::string& out, T value) { append_text(out, to_string(value)); }
  static bool read(CborReader& in, T& value) {
    std::string_view name;
    if (!in.text(name)) return false;
    const auto known = from_string<T>(name);
    if (!known) in.note_unknown_name(name);
    value = known.value_or(value);
    return known.has_value();
  }
};

template <>
struct Codec<ProcessKey> : AlwaysThere {
  static void write(std::string& out, const ProcessKey& key) {
    append_head(out, CborKind::kArray, 2);
    Codec<int32_t>::write(out, key.pid);
    Codec<uint64_t>::write(out, key.start_ticks);
  }
  static bool read(CborReader& in, ProcessKey& key) {
    return in.array() == 2 && Codec<int32_t>::read(in, key.pid) &&
           Codec<uint64_t>::read(in, key.start_ticks);
  }
};

template <class T>
struct Codec<std::optional<T>> {
  static bool is_there(const std::optional<T>& value) {
    return value.has_value() && Codec<T>::is_there(*value);
  }
  static void write(std::string& out, const std::optional<T>& value) {
    if (value) Codec<T>::write(out, *value);  // asked for only where is_there
  }
  static bool read(CborReader& in, std::optional<T>& value) {
    return Codec<T>::read(in, value.emplace());
  }
};

template <class T>
struct Codec<Observed<T>> : AlwaysThere {
  static void write(std::string& out, const Observed<T>& value) {
    value ? Codec<T>::write(out, *value) : write_error(out, value.error());
  }
  static bool read(CborReader& in, Observed<T>& value) {
    bool is_good = true;
    if (auto error = read_error(in, is_good)) {
      value = std::unexpected(std::move(*error));
      return is_good;
    }
    value = T{};
    return Codec<T>::read(in, *value);
  }
};

template <class T>
struct Codec<std::vector<T>> : AlwaysThere {
  static void write(std::string& out, const std::vector<T>& values) {
    append_head(out, CborKind::kArray, values.size());
    for (const T& value : values)
      Codec<T>::write(out, value);
  }
  static bool read(CborReader& in, std::vector<T>& values) {
    const auto count = in.array();
    if (!count) return false;
    values.clear();
    for (size_t i = 0; i < *count; ++i) {
      if (!Codec<T>::read(in, values.emplace_back())) return false;
    }
    return true;
  }
};

template <class T, size_t N>
struct Codec<std::array<T, N>> : AlwaysThere {
  static void write(std::string& out, const std::array<T, N>& values) {
    append_head(out, CborKind::kArray, N);
    for (const T& value : values)
      Codec<T>::write(out, value);
  }
  static bool read(CborReader& in, std::array<T, N>& values) {
    if (in.array() != N) return false;
    for (T& value : values) {
      if (!Codec<T>::read(in, value)) return false;
    }
    return true;
  }
};

template <class T>
inline constexpr ValueCodec kValueCodec = {
    .write = [](std::string& out,
                const void* value) { Codec<T>::write(out, *static_cast<const T*>(value)); },
    .read = [](CborReader& in, void* value) { return Codec<T>::read(in, *static_cast<T*>(value)); },
    .is_there = [](const void* value) { return Codec<T>::is_there(*static_cast<const T*>(value)); },
};

inline constexpr ValueCodec kMomentCodec = {
    .write = kValueCodec<int64_t>.write,
    .read = [](CborReader& in,
               void* value) { return read_moment(in, *static_cast<int64_t*>(value)); },
    .is_there = kValueCodec<int64_t>.is_there,
};

/// A message has two keys. The first holds its text, as files of old have it.
inline constexpr ValueCodec kMessageTextCodec = {
    .write =
        [](std::string& out, const void* value) {
          append_text(out, static_cast<const Message*>(value)->plain());
        },
    .read =
        [](CborReader& in, void* value) {
          std::string_view text;
          const bool is_good = in.text(text);
          *static_cast<Message*>(value) = as_text(text);
          return is_good;
        },
    .is_there = [](const void* /*value*/) { return true; },
};

/// The second, with this behind it, holds its parts. A text without it is all somebody else's.
inline constexpr std::string_view kPartsOfMessage = "_parts";
inline constexpr ValueCodec kMessagePartsCodec = {
    .write =
        [](std::string& out, const void* value) {
          Codec<std::vector<MessagePart>>::write(out, static_cast<const Message*>(value)->parts());
        },
    .read =
        [](CborReader& in, void* value) {
          std::vector<MessagePart> parts;
          const bool is_good = Codec<std::vector<MessagePart>>::read(in, parts);
          *static_cast<Message*>(value) = Message(parts);
          return is_good;
        },
    .is_there =
        [](const void* value) {
          const auto& message = *static_cast<const Message*>(value);
          return message != as_text(message.plain());
        },
};

template <Listed T>
const FieldCodecs& field_codecs() {
  static const FieldCodecs fields = [] {
    const T object{};
    FieldCodecs made;
    for_each_field<T>([&]<class V>(const Field<T, V>& field) {
      const auto offset =
          static_cast<size_t>(reinterpret_cast<const char*>(&(object.*field.member)) -
                              reinterpret_cast<const char*>(&object));
      const auto add = [&](std::string_view suffix, const ValueCodec& codec) {
        made.push_back({.key = std::string(field.key) + std::string(suffix),
                        .offset = offset,
                        .codec = &codec});
      };
      const bool is_moment = field.unit == Unit::kMoment || field.unit == Unit::kTimeOfDay;
      if constexpr (std::same_as<V, Message>) {
        add("", kMessageTextCodec);
        add(kPartsOfMessage, kMessagePartsCodec);
      } else if constexpr (std::same_as<V, int64_t>) {
        add("", is_moment ? kMomentCodec : kValueCodec<V>);
      } else {
        add("", kValueCodec<V>);
      }
    });
    return made;
  }();
  return fields;
}

}  // namespace dlprobe
