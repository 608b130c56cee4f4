#include "lib/record/field_codec.h"

namespace dlprobe {
namespace {

constexpr int64_t kLatestNs = int64_t{1} << 62U;

// Our own files have the keys in the order of the list, so that of the next field is tried first.
const FieldCodec* find(const FieldCodecs& fields, std::string_view key, size_t& next) {
  for (size_t tried = 0; tried < fields.size(); ++tried) {
    const FieldCodec& field = fields[next];
    next = next + 1 == fields.size() ? 0 : next + 1;
    if (field.key == key) return &field;
  }
  return nullptr;
}

const void* member_of(const void* object, const FieldCodec& field) {
  return static_cast<const char*>(object) + field.offset;
}

}  // namespace

size_t count_fields(const FieldCodecs& fields, const void* object) {
  size_t count = 0;
  for (const FieldCodec& field : fields)
    count += field.codec->is_there(member_of(object, field)) ? 1 : 0;
  return count;
}

void write_fields(std::string& out, const FieldCodecs& fields, const void* object) {
  for (const FieldCodec& field : fields) {
    const void* member = member_of(object, field);
    if (!field.codec->is_there(member)) continue;
    append_text(out, field.key);
    field.codec->write(out, member);
  }
}

bool read_fields(CborReader& in, const FieldCodecs& fields, void* object) {
  const auto count = in.map();
  if (!count) return false;
  size_t next = 0;
  for (size_t i = 0; i < *count; ++i) {
    std::string_view key;
    if (!in.text(key)) return false;
    const FieldCodec* field = find(fields, key, next);
    if (field == nullptr) {
      if (!in.skip()) return false;
      continue;
    }
    if (!field->codec->read(in, static_cast<char*>(object) + field->offset)) {
      in.note_key(field->key);
      return false;
    }
  }
  return true;
}

void write_error(std::string& out, const Error& error) {
  append_head(out, CborKind::kMap, 1);
  append_text(out, kErrorKey);
  append_head(out, CborKind::kArray, 3);
  append_text(out, to_string(error.code));
  Codec<int>::write(out, error.os_errno);
  append_text(out, error.context);
}

std::optional<Error> read_error(CborReader& in, bool& is_good) {
  if (!in.is_before_map()) return std::nullopt;
  CborReader ahead = in;  // an observed struct is a map as well
  std::string_view key;
  if (ahead.map() != 1 || !ahead.text(key) || key != kErrorKey) return std::nullopt;
  in = ahead;
  Error error;
  is_good = in.array() == 3 && Codec<ErrorCode>::read(in, error.code) &&
            Codec<int>::read(in, error.os_errno) && Codec<std::string>::read(in, error.context);
  return error;
}

bool read_moment(CborReader& in, int64_t& out) {
  return Codec<int64_t>::read(in, out) && out < kLatestNs && out > -kLatestNs;
}

}  // namespace dlprobe
