#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/parse.h"
#include "lib/os/file_system.h"
#include "lib/os/process_access.h"
#include "lib/stacks/native/module_cache.h"
#include "lib/stacks/native/module_symbols.h"
#include "lib/stacks/python/runtime.h"

namespace dlprobe {

/// The memory and the files of one process.
struct Process {
  explicit Process(pid_t pid)
      : memory(std::make_shared<SystemProcesses>(), pid),
        directory((*open_root("/"))->open_directory("proc/" + std::to_string(pid)).value()),
        symbols(*directory, modules) {}

  AddressSpace space() const { return AddressSpace::read(*directory).value(); }
  Expected<std::optional<PythonRuntime>> find(SymbolSource& source) const {
    return find_python(memory, space(), source);
  }
  Expected<std::optional<PythonRuntime>> find() { return find(symbols); }

  ProcessMemory memory;
  std::shared_ptr<const Directory> directory;
  ModuleCache modules;
  ModuleSymbols symbols;
};

/// The CPythons to test against.
inline std::vector<std::string> pythons() {
  std::vector<std::string> programs;
  for (const std::string_view program : split(DLPROBE_PYTHONS, ':')) {
    if (!program.empty()) programs.emplace_back(program);
  }
  return programs;
}

/// "3_python3_11": the number and the name, as far as a test's name may have it.
inline std::string test_name(const testing::TestParamInfo<std::string>& info) {
  const std::string program = info.param.substr(info.param.rfind('/') + 1);
  std::string name = std::to_string(info.index) + "_" + program;
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace dlprobe
