#include "lib/foreign/flight_dump.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <ranges>
#include <type_traits>
#include <utility>

#include "lib/base/parse.h"
#include "lib/foreign/python_code.h"

namespace dlprobe {
namespace {

using Index = size_t;
constexpr size_t kMostValues = 400'000;  // 2,000 collectives have 44,000
constexpr size_t kMostNoted = 256;       // the newest ones
constexpr size_t kMostGroups = 1024;
constexpr size_t kMostTensors = 4;  // in words
constexpr size_t kMostSizes = 8;
constexpr size_t kMostFrames = 256;
constexpr size_t kLongestText = 4096;
/// An entry has about 20; one of many, referred to by many entries, would be searched for hours.
constexpr size_t kMostKeys = 256;

/// A value of a pickle; its parts are other values, by their index, so that what is referred to
/// many times is there once.
struct Value {
  enum class Kind { kNone, kNumber, kText, kList, kDict, kMark };
  Kind kind = Kind::kNone;
  int64_t number = 0;  ///< also of a bool
  std::string_view text;
  std::vector<Index> parts;  ///< of a list or tuple; of a dict its keys and values by turns
};

// The opcodes of plain data (Lib/pickletools.py).
enum Opcode : uint8_t {
  kMarkHere = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  // What Python's pickle.dump has besides: the job may have written the dump itself.
  kShortBinUnicode = 0x8c,
  kMemoize = 0x94,
  kFrame = 0x95,
};

std::unexpected<Error> bad_dump(const std::string& why) {
  return failure(ErrorCode::kMalformed, "read a dump of the Flight Recorder: " + why);
}

class Pickle {
 public:
  explicit Pickle(std::string_view bytes) : rest_(bytes) {}

  /// Reads to the end; then the value is its first.
  Status read() {
    while (true) {
      DLP_TRY(const uint8_t opcode, number<uint8_t>());
      if (opcode == kStop) return stack_.size() == 1 ? Status() : bad_dump("it ends too early");
      DLP_CHECK(step(opcode));
      if (values_.size() > kMostValues) return bad_dump("it has too many values");
    }
  }
  const Value& top() const { return values_[stack_.front()]; }

  /// Of a dict; null if it has none, or is none.
  const Value* at(const Value& dict, std::string_view key) const {
    if (dict.kind != Value::Kind::kDict) return nullptr;
    for (size_t i = 0; i + 1 < std::min(dict.parts.size(), 2 * kMostKeys); i += 2) {
      const Value& name = values_[dict.parts[i]];
      if (name.kind == Value::Kind::kText && name.text == key) return &values_[dict.parts[i + 1]];
    }
    return nullptr;
  }
  const Value& part(const Value& list, size_t i) const { return values_[list.parts[i]]; }

 private:
  Expected<std::string_view> take(uint64_t count) {
    if (count > rest_.size()) return bad_dump("it is cut off");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  Status skip(uint64_t count) {
    DLP_CHECK(take(count));
    return {};
  }
  template <class T>
    requires std::is_integral_v<T>
  Expected<T> number() {
    DLP_TRY(const std::string_view bytes, take(sizeof(T)));
    T value{};
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  void push(Value value) {
    values_.push_back(std::move(value));
    stack_.push_back(values_.size() - 1);
  }
  Status push_number(int64_t value) {
    push({.kind = Value::Kind::kNumber, .number = value, .text = {}, .parts = {}});
    return {};
  }
  template <class Length>
  Status push_text() {
    DLP_TRY(const Length length, number<Length>());
    DLP_TRY(const std::string_view text, take(length));
    push({.kind = Value::Kind::kText, .text = text, .parts = {}});
    return {};
  }
  /// Little endian, two's complement; one of more than 64 bits is none that a dump has.
  Status push_long() {
    DLP_TRY(const uint8_t length, number<uint8_t>());
    if (length > sizeof(int64_t)) return bad_dump("a number is too long");
    DLP_TRY(const std::string_view bytes, take(length));
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), length);
    const bool is_negative = length > 0 && (static_cast<uint8_t>(bytes.back()) & 0x80U) != 0;
    if (is_negative && length < sizeof(value)) value |= ~uint64_t{0} << (length * 8U);
    return push_number(static_cast<int64_t>(value));
  }
  Status push_parts(Value::Kind kind, std::vector<Index> parts) {
    push({.kind = kind, .text = {}, .parts = std::move(parts)});
    return {};
  }

  Expected<std::vector<Index>> pop(size_t count) {
    if (count > stack_.size()) return bad_dump("its stack is empty");
    std::vector<Index> taken(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return taken;
  }
  Expected<std::vector<Index>> pop_to_mark() {
    const auto outwards = stack_ | std::views::reverse;
    const auto mark = std::ranges::find_if(
        outwards, [&](Index each) { return values_[each].kind == Value::Kind::kMark; });
    if (mark == outwards.end()) return bad_dump("a mark is missing");
    DLP_TRY(auto taken, pop(static_cast<size_t>(mark - outwards.begin())));
    stack_.pop_back();
    return taken;
  }
  /// To the list or dict on the stack.
  Status add(Value::Kind kind, Expected<std::vector<Index>> parts) {
    DLP_CHECK(parts);
    const bool fits = !stack_.empty() && values_[stack_.back()].kind == kind;
    if (!fits) return bad_dump("it adds to what is no container");
    if (kind == Value::Kind::kDict && parts->size() % 2 != 0) return bad_dump("a key has no value");
    auto& into = values_[stack_.back()].parts;
    into.insert(into.end(), parts->begin(), parts->end());
    return {};
  }

  Status keep_as(uint32_t name) {
    if (stack_.empty()) return bad_dump("its stack is empty");
    memo_[name] = stack_.back();
    return {};
  }
  template <class T>
  Status put() {
    DLP_TRY(const T name, number<T>());
    return keep_as(name);
  }
  template <class T>
  Status get() {
    DLP_TRY(const T name, number<T>());
    const auto found = memo_.find(name);
    if (found == memo_.end()) return bad_dump("it refers to what it has not");
    if (stack_.size() > kMostValues) return bad_dump("it has too many values");
    stack_.push_back(found->second);
    return {};
  }
  template <class T>
  Status push_int() {
    DLP_TRY(const T value, number<T>());
    return push_number(value);
  }
  Status push_tuple(Expected<std::vector<Index>> parts) {
    DLP_CHECK(parts);
    return push_parts(Value::Kind::kList, std::move(*parts));
  }

  Status step(uint8_t opcode) {
    switch (opcode) {
      case kProto:
        return skip(sizeof(uint8_t));
      case kFrame:
        return skip(sizeof(uint64_t));
      case kMemoize:
        return keep_as(static_cast<uint32_t>(memo_.size()));
      case kBinPut:
        return put<uint8_t>();
      case kLongBinPut:
        return put<uint32_t>();
      case kBinGet:
        return get<uint8_t>();
      case kLongBinGet:
        return get<uint32_t>();
      case kMarkHere:
        return push_parts(Value::Kind::kMark, {});
      case kEmptyDict:
        return push_parts(Value::Kind::kDict, {});
      case kEmptyList:
      case kEmptyTuple:
        return push_parts(Value::Kind::kList, {});
      default:
        return step_of_value(opcode);
    }
  }
  Status step_of_value(uint8_t opcode) {
    switch (opcode) {
      case kNone:
        return push_parts(Value::Kind::kNone, {});
      case kNewTrue:
        return push_number(1);
      case kNewFalse:
        return push_number(0);
      case kBinInt:
        return push_int<int32_t>();
      case kBinInt1:
        return push_int<uint8_t>();
      case kBinInt2:
        return push_int<uint16_t>();
      case kLong1:
        return push_long();
      case kBinUnicode:
        return push_text<uint32_t>();
      case kShortBinUnicode:
        return push_text<uint8_t>();
      case kBinFloat:
        DLP_CHECK(skip(sizeof(double)));
        return push_parts(Value::Kind::kNone, {});
      default:
        return step_of_container(opcode);
    }
  }
  Status step_of_container(uint8_t opcode) {
    switch (opcode) {
      case kAppend:
        return add(Value::Kind::kList, pop(1));
      case kAppends:
        return add(Value::Kind::kList, pop_to_mark());
      case kSetItem:
        return add(Value::Kind::kDict, pop(2));
      case kSetItems:
        return add(Value::Kind::kDict, pop_to_mark());
      case kTuple:
        return push_tuple(pop_to_mark());
      case kTuple1:
        return push_tuple(pop(1));
      case kTuple2:
        return push_tuple(pop(2));
      case kTuple3:
        return push_tuple(pop(3));
      default:
        return bad_dump("opcode " + std::to_string(opcode) + " is none of plain data");
    }
  }

  std::string_view rest_;
  std::vector<Value> values_;
  std::vector<Index> stack_;
  std::map<uint32_t, Index> memo_;
};

std::string text_of(const Value* value) {
  const bool is_text = value != nullptr && value->kind == Value::Kind::kText;
  return is_text ? std::string(value->text.substr(0, kLongestText)) : "";
}

int64_t number_of(const Value* value, int64_t otherwise = 0) {
  return value != nullptr && value->kind == Value::Kind::kNumber ? value->number : otherwise;
}

// Of a list or tuple: its parts, as many as are asked for.
std::vector<const Value*> parts_of(const Pickle& pickle, const Value* list, size_t most) {
  std::vector<const Value*> parts;
  if (list == nullptr || list->kind != Value::Kind::kList) return parts;
  for (size_t i = 0; i < std::min(list->parts.size(), most); ++i)
    parts.push_back(&pickle.part(*list, i));
  return parts;
}

// "[64, 32]".
std::string sizes_text(const Pickle& pickle, const Value* sizes) {
  std::string text = "[";
  for (const Value* size : parts_of(pickle, sizes, kMostSizes)) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(number_of(size));
  }
  return text + "]";
}

std::string tensors_text(const Pickle& pickle, const Value& entry) {
  std::string text;
  const auto types = parts_of(pickle, pickle.at(entry, "input_dtypes"), kMostTensors);
  const auto sizes = parts_of(pickle, pickle.at(entry, "input_sizes"), kMostTensors);
  for (size_t i = 0; i < std::min(types.size(), sizes.size()); ++i) {
    if (!text.empty()) text += ", ";
    text += text_of(types[i]) + " " + sizes_text(pickle, sizes[i]);
  }
  return text;
}

void note_place(const Pickle& pickle, const Value& entry, NotedCollective& found) {
  for (const Value* frame : parts_of(pickle, pickle.at(entry, "frames"), kMostFrames)) {
    const std::string file = text_of(pickle.at(*frame, "filename"));
    if (is_of_a_library(file)) continue;
    constexpr int64_t kMostLines = std::numeric_limits<int32_t>::max();
    found.function = text_of(pickle.at(*frame, "name"));
    found.file = file;
    found.line = static_cast<int32_t>(
        std::clamp<int64_t>(number_of(pickle.at(*frame, "line")), 0, kMostLines));
    return;
  }
}

NotedCollective noted(const Pickle& pickle, const Value& entry) {
  NotedCollective found;
  const auto group = parts_of(pickle, pickle.at(entry, "process_group"), 2);  // ('0', 'default_pg')
  if (!group.empty()) found.group = text_of(group.front());
  found.group_id = number_of(pickle.at(entry, "pg_id"), -1);
  found.operation = text_of(pickle.at(entry, "profiling_name"));
  found.is_done = number_of(pickle.at(entry, "retired")) != 0 ||
                  text_of(pickle.at(entry, "state")) == "completed";
  found.is_message = number_of(pickle.at(entry, "is_p2p")) != 0;
  found.sequence =
      number_of(pickle.at(entry, found.is_message ? "p2p_seq_id" : "collective_seq_id"));
  found.tensors = tensors_text(pickle, entry);
  note_place(pickle, entry, found);
  found.thread = parse_int<uint64_t>(text_of(pickle.at(entry, "thread_id"))).value_or(0);
  found.created_ns = number_of(pickle.at(entry, "time_created_ns"));
  found.timeout_ms = number_of(pickle.at(entry, "timeout_ms"));
  return found;
}

// {'0': {'last_enqueued_collective': 3, 'last_started_collective': -1,
//        'last_completed_collective': 2}}
std::vector<GroupStatus> group_statuses(const Pickle& pickle, const Value* all) {
  std::vector<GroupStatus> found;
  if (all == nullptr || all->kind != Value::Kind::kDict) return found;
  for (size_t i = 0; i + 1 < std::min(all->parts.size(), 2 * kMostGroups); i += 2) {
    const auto id = parse_int<int64_t>(text_of(&pickle.part(*all, i)));
    const Value& status = pickle.part(*all, i + 1);
    if (!id) continue;
    found.push_back({.group_id = *id,
                     .enqueued = number_of(pickle.at(status, "last_enqueued_collective"), -1),
                     .completed = number_of(pickle.at(status, "last_completed_collective"), -1)});
  }
  return found;
}

}  // namespace

Expected<FlightDump> parse_flight_dump(std::string_view bytes) {
  if (bytes.size() > kMostFlightDumpBytes) return bad_dump("it is too large");
  Pickle pickle(bytes);
  DLP_CHECK(pickle.read());
  FlightDump dump{.version = text_of(pickle.at(pickle.top(), "version")),
                  .collectives = {},
                  .groups = group_statuses(pickle, pickle.at(pickle.top(), "pg_status"))};
  const Value* entries = pickle.at(pickle.top(), "entries");
  if (dump.version.empty() || entries == nullptr || entries->kind != Value::Kind::kList)
    return bad_dump("it has no version or no entries");
  const size_t count = entries->parts.size();
  for (size_t i = count - std::min(count, kMostNoted); i < count; ++i) {
    const Value& entry = pickle.part(*entries, i);
    if (entry.kind != Value::Kind::kDict) return bad_dump("an entry is no dict");
    dump.collectives.push_back(noted(pickle, entry));
  }
  return dump;
}

}  // namespace dlprobe
