#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/snapshot.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/module_cache.h"

namespace dlprobe {

/// The functions on the stacks of a tree that still have no name, by the file that has it.
class FunctionNames {
 public:
  void want(const std::shared_ptr<const ElfFile>& file, uint64_t address, StackFrame& frame) {
    Wanted& wanted = by_file_[file.get()];
    wanted.file = file;
    wanted.addresses.push_back(address);
    wanted.frames.push_back(&frame);
  }

  void resolve() {
    for (auto& [key, wanted] : by_file_) {
      std::vector<ElfSymbol> symbols = wanted.file->functions(wanted.addresses);
      for (size_t i = 0; i < symbols.size(); ++i)
        wanted.frames[i]->function = std::move(symbols[i].name);
    }
  }

 private:
  struct Wanted {
    std::shared_ptr<const ElfFile> file;
    std::vector<uint64_t> addresses;
    std::vector<StackFrame*> frames;
  };
  std::map<const ElfFile*, Wanted> by_file_;
};

/// Where in which file the frames of one process are.
class FramePlaces {
 public:
  /// All must outlive it. `process`: the /proc directory by which its files are reached.
  FramePlaces(const AddressSpace& space, const Directory& process, ModuleCache& modules)
      : space_(space), process_(process), modules_(modules) {}

  StackFrame frame_at(uint64_t address);

  /// Asks for the names of a thread's functions.
  void want_names(ThreadSnapshot& thread, FunctionNames& names) const;

 private:
  const AddressSpace& space_;
  const Directory& process_;
  ModuleCache& modules_;
  std::map<std::string, std::shared_ptr<const ElfFile>> files_;  ///< by path
};

}  // namespace dlprobe
