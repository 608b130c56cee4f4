#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/python/layout.h"

namespace dlprobe {

/// The name of the object's type: "code", "_thread.lock". kMalformed: it cannot be one.
Expected<std::string> python_type_name(const Memory& memory, const PythonLayout::Object& layout,
                                       uint64_t object);
/// The same of the type at that address.
Expected<std::string> python_name_of_type(const Memory& memory, const PythonLayout::Object& layout,
                                          uint64_t type);

/// Reads objects of a Python process. Trusts nothing there: kMalformed is what cannot be such an
/// object, and all that one reader gives out together is limited. Refers to both arguments.
class PythonObjects {
 public:
  PythonObjects(const Memory& memory, const PythonLayout& layout)
      : memory_(memory), layout_(layout) {}

  /// A str as UTF-8. A byte that Python kept as a lone surrogate (os.fsdecode) is that byte again;
  /// any other lone surrogate is U+FFFD.
  Expected<std::string> text(uint64_t object);

  /// A bytes object.
  Expected<std::vector<std::byte>> bytes(uint64_t object);

 private:
  struct StrHeader;
  Expected<StrHeader> read_header(uint64_t object) const;
  Expected<std::vector<std::byte>> read(uint64_t address, uint64_t count);

  const Memory& memory_;
  const PythonLayout& layout_;
  uint64_t bytes_left_ = uint64_t{64} << 20;
};

/// Goes along a linked list that may be broken: refuses a node that it saw before, and one too
/// many.
class PythonListGuard {
 public:
  PythonListGuard(std::string what, size_t limit) : what_(std::move(what)), limit_(limit) {}
  Status enter(uint64_t address);

 private:
  std::string what_;
  size_t limit_;
  std::set<uint64_t> seen_;
};

}  // namespace dlprobe
