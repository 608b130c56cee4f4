#include "lib/collect/snapshot/frame_places.h"

namespace dlprobe {

StackFrame FramePlaces::frame_at(uint64_t address) {
  StackFrame frame{.offset = address};
  const Mapping* mapping = space_.find(address);
  if (mapping == nullptr) return frame;
  frame.file = mapping->path;
  const auto& file = modules_.file_of(process_, *mapping);
  const auto bias = file ? (*file)->bias(*mapping) : std::nullopt;
  if (!bias) {  // not the ELF file that it was: a place in the file tells more than one in memory
    if (mapping->inode != 0) frame.offset = address - mapping->begin + mapping->offset;
    return frame;
  }
  frame.offset = address - *bias;
  files_.try_emplace(frame.file, *file);
  return frame;
}

void FramePlaces::want_names(ThreadSnapshot& thread, FunctionNames& names) const {
  bool innermost = true;
  for (StackFrame& frame : thread.stack) {
    // A return address may be the first one behind its function.
    const uint64_t address = innermost ? frame.offset : frame.offset - 1;
    innermost = false;
    const auto file = files_.find(frame.file);
    if (file != files_.end() && file->second) names.want(file->second, address, frame);
  }
}

}  // namespace dlprobe
