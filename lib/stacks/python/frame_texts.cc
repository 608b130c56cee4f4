#include "lib/stacks/python/frame_texts.h"

#include <algorithm>

namespace dlprobe {
namespace {

constexpr size_t kTextsOfFrames = 64;
constexpr size_t kObjectsOfFrames = 512;
constexpr uint64_t kFieldsAtMost = 64;      ///< of an object, a tuple of names
constexpr uint64_t kGlobalsOfModule = 512;  ///< of a module

}  // namespace

const std::set<std::string>& PythonFrameTexts::add(const PythonFramePlace& place) {
  add_locals(place);
  add_globals(place);
  return texts_;
}

void PythonFrameTexts::add_locals(const PythonFramePlace& place) {
  const uint64_t names = values_.word(place.code + layout_.locals_names);
  const PythonType* type = values_.type_of(names);
  if (type == nullptr || !type->is_tuple()) return;
  const uint64_t count = std::min(values_.length(names, *type).value_or(0), kFieldsAtMost);
  for (uint64_t i = 0; i < count; ++i)
    add_value(values_.word(place.frame + layout_.frame_locals + i * kPythonWord), 0);
}

void PythonFrameTexts::add_globals(const PythonFramePlace& place) {
  const uint64_t names = values_.word(place.code + layout_.code_names);
  const uint64_t dict = values_.word(place.frame + layout_.frame_globals);
  const PythonType* of_names = values_.type_of(names);
  const PythonType* of_dict = values_.type_of(dict);
  if (of_names == nullptr || of_dict == nullptr || !of_names->is_tuple()) return;
  std::set<uint64_t> wanted;
  for (const auto& [none, name] : values_.items(names, *of_names, kFieldsAtMost))
    wanted.insert(name);
  for (const auto& [name, value] : values_.items(dict, *of_dict, kGlobalsOfModule))
    if (wanted.contains(name)) add_value(value, 0);  // names are interned
}

void PythonFrameTexts::add_value(uint64_t value, int depth) {
  constexpr int kStepsToText = 2;
  constexpr uint64_t kContentOfCell = 16;  // PyCellObject.ob_ref
  const PythonType* type = values_.type_of(value);
  if (type == nullptr || seen_.size() >= kObjectsOfFrames || !seen_.insert(value).second) return;
  if (type->is_text()) return add_text(value);
  if (type->name == "cell") return add_value(values_.word(value + kContentOfCell), depth);
  const bool has_fields = !type->is_type() && !type->is_bytes() && !type->is_int() &&
                          type->name != "module" && type->name != "function" &&
                          !values_.length(value, *type);
  if (!has_fields || depth == kStepsToText) return;
  for (const auto& [name, attribute] : values_.attributes(value, *type, kFieldsAtMost))
    add_value(attribute, depth + 1);
  // Those of __slots__, as pathlib has them.
  const uint64_t words = std::min(type->instance_bytes / kPythonWord, kFieldsAtMost);
  for (uint64_t i = 2; i < words; ++i) {
    const uint64_t slot = values_.word(value + i * kPythonWord);
    const PythonType* of_slot = values_.type_of(slot);
    if (of_slot != nullptr && of_slot->is_text()) add_text(slot);
  }
}

void PythonFrameTexts::add_text(uint64_t text) {
  constexpr size_t kLongestPath = 1024;
  const auto& found = values_.text(text);
  const bool may_be_path = found && found->size() > 1 && found->size() < kLongestPath &&
                           found->find_first_of(std::string_view("\0\n", 2)) == std::string::npos;
  if (may_be_path && texts_.size() < kTextsOfFrames) texts_.insert(*found);
}

}  // namespace dlprobe
