#include "lib/stacks/python/frame_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lib/stacks/python/line_table.h"

namespace dlprobe {
namespace {

/// From this on a frame's owner is no Python code: FRAME_OWNED_BY_CSTACK (3.12, 3.13: 3; 3.14: 4),
/// FRAME_OWNED_BY_INTERPRETER (3.14 on: 3).
constexpr uint8_t kFirstShimOwner = 3;

}  // namespace

Expected<RawPythonFrame> PythonFrameReader::read(uint64_t address) const {
  RawPythonFrame raw{.address = address};
  DLP_TRY(raw.previous, pointer(address + layout_.frame.previous));
  DLP_TRY(raw.code, pointer(address + layout_.frame.code));
  raw.code &= ~kPythonTagBits;
  if (layout_.frame.owner) {
    DLP_TRY(const uint8_t owner, memory_.value<uint8_t>(address + *layout_.frame.owner));
    raw.is_shim = owner >= kFirstShimOwner;
  }
  return raw;
}

Expected<PythonFrame> PythonFrameReader::at(uint64_t code, int64_t position) {
  DLP_TRY(const PythonCodeCache::Code* read, read_code(code));
  const auto line =
      python_line_at(layout_.line_table, read->line_table, read->first_line, position);
  return PythonFrame{.file = read->file, .function = read->function, .line = line.value_or(0)};
}

Status PythonFrameReader::add(const RawPythonFrame& raw, PythonThread& thread) {
  DLP_TRY(const std::string type, python_type_name(memory_, layout_.object, raw.code));
  if (type != "code") {
    // From 3.13 on an extension may put any object there: PyUnstable_InterpreterFrame_GetCode.
    if (runtime_.version.minor >= 13) return {};
    return failure(ErrorCode::kMalformed,
                   fmt::format("the frame at {:#x} has no code object", raw.address));
  }
  DLP_TRY(const PythonCodeCache::Code* code, read_code(raw.code));
  // What CPython runs between a class and its __init__ (_Py_InitCleanup of Python/specialize.c,
  // from 3.12 on) is in no file.
  if (code->file == "__init__" && code->function == "__init__") return {};
  DLP_TRY(const int64_t position, read_position(raw));
  DLP_TRY(const bool is_entry, read_is_entry(raw));
  DLP_TRY(const AddressRange values, value_stack_of(raw, *code));
  DLP_TRY(PythonFrame frame, at(raw.code, position));
  frame.is_entry = is_entry;
  thread.frames.push_back(std::move(frame));
  thread.value_stacks.push_back(values);
  thread.places.push_back({.frame = raw.address, .code = raw.code});
  return {};
}

Expected<AddressRange> PythonFrameReader::value_stack_of(const RawPythonFrame& raw,
                                                         const PythonCodeCache::Code& code) const {
  const auto words = [](int32_t count) {
    constexpr int32_t kMostValues = 1 << 12;
    return static_cast<uint64_t>(std::clamp(count, 0, kMostValues)) * sizeof(uint64_t);
  };
  uint64_t begin = raw.address + layout_.frame.locals + words(code.locals_count);
  if (layout_.frame.value_stack) {
    DLP_TRY(begin, pointer(raw.address + *layout_.frame.value_stack));
  }
  const AddressRange all{.begin = begin, .end = begin + words(code.stack_size)};
  if (layout_.frame.stack_top == 0) return all;
  DLP_TRY(const int32_t top, memory_.value<int32_t>(raw.address + layout_.frame.stack_top));
  const uint64_t end = raw.address + layout_.frame.locals + words(top);
  return top > 0 && end >= all.begin && end <= all.end ? AddressRange{all.begin, end} : all;
}

Expected<bool> PythonFrameReader::read_is_entry(const RawPythonFrame& raw) const {
  if (!layout_.frame.is_entry) return layout_.entry == PythonEntry::kEveryFrame;
  DLP_TRY(const uint8_t flag, memory_.value<uint8_t>(raw.address + *layout_.frame.is_entry));
  return flag != 0;
}

Expected<int64_t> PythonFrameReader::read_position(const RawPythonFrame& raw) const {
  constexpr int64_t kInstructionBytes = 2;
  const uint64_t address = raw.address + layout_.frame.position;
  if (layout_.position != PythonPosition::kPointer) {
    DLP_TRY(const int32_t lasti, memory_.value<int32_t>(address));
    return layout_.position == PythonPosition::kByte ? lasti : lasti * kInstructionBytes;
  }
  DLP_TRY(const uint64_t instruction, pointer(address));
  DLP_TRY(const uint64_t begin, read_bytecode_begin(raw));
  return static_cast<int64_t>(instruction - begin);
}

Expected<uint64_t> PythonFrameReader::read_bytecode_begin(const RawPythonFrame& raw) const {
  const uint64_t own = raw.code + layout_.code.instructions.value_or(0);
  if (!layout_.frame.tlbc_index || !layout_.code.tlbc) return own;
  DLP_TRY(const int32_t index, memory_.value<int32_t>(raw.address + *layout_.frame.tlbc_index));
  DLP_TRY(const uint64_t copies, pointer(raw.code + *layout_.code.tlbc));
  if (index <= 0 || copies == 0) return own;
  DLP_TRY(const uint64_t count, pointer(copies));
  const auto number = static_cast<uint64_t>(index);
  if (number >= count) {
    return failure(ErrorCode::kMalformed, fmt::format("bytecode copy {} of {}", number, count));
  }
  return pointer(copies + (number + 1) * sizeof(uint64_t));
}

Expected<const PythonCodeCache::Code*> PythonFrameReader::read_code(uint64_t address) {
  const PythonLayout::Code& at = layout_.code;
  PythonCodeCache::Key key{.address = address};
  DLP_TRY(key.file, pointer(address + at.file));
  DLP_TRY(key.name, pointer(address + at.qualified_name.value_or(at.name)));
  DLP_TRY(key.line_table, pointer(address + at.line_table));
  DLP_TRY(key.first_line, memory_.value<int32_t>(address + at.first_line));
  if (const auto* known = cache_.find(key)) return known;
  PythonCodeCache::Code code{.first_line = key.first_line};
  DLP_TRY(code.stack_size, memory_.value<int32_t>(address + at.stack_size));
  if (at.locals_count) {
    DLP_TRY(code.locals_count, memory_.value<int32_t>(address + *at.locals_count));
  }
  DLP_TRY(code.file, objects_.text(key.file));
  DLP_TRY(code.function, objects_.text(key.name));
  DLP_TRY(code.line_table, objects_.bytes(key.line_table));
  return &cache_.add(key, std::move(code));
}

}  // namespace dlprobe
