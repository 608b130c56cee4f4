#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/ids.h"
#include "lib/model/snapshot.h"

namespace dlprobe {

/// A list, dict, set or deque of a Python program that has more items than at the look before.
struct GrownContainer {
  uint64_t address = 0;
  std::string name;
  std::string type;
  uint64_t before = 0;
  uint64_t count = 0;
  std::optional<uint64_t> item_bytes;
  std::optional<StackFrame> user;
  bool operator==(const GrownContainer&) const = default;
};
constexpr void list_fields(auto&& field, Of<GrownContainer> /*of*/) {
  field("addr", &GrownContainer::address, "tells containers of one process apart");
  field("name", &GrownContainer::name,
        R"(how the program calls it: "Trainer.history", "SEEN"; secrets masked, hostile text)");
  field("type", &GrownContainer::type, R"("list", "collections.deque"; hostile text)");
  field("before", &GrownContainer::before, "items at the look before");
  field("count", &GrownContainer::count, "items");
  field("item_bytes", &GrownContainer::item_bytes,
        "of its newest item, with what that consists of, at the most; none where it may have "
        "memory that Python does not know",
        Unit::kBytes);
  field("user", &GrownContainer::user,
        "a function of the program that uses the name, at its first line; of a local variable the "
        "frame");
}

/// Which containers of a process have grown between two looks.
struct ContainerLook {
  BootNs at = 0;
  BootNs before_at = 0;
  ProcessKey process;
  std::vector<GrownContainer> grown;
  uint64_t threads = 0;
  uint64_t in_crowd = 0;
  std::optional<StackFrame> crowd;
  bool operator==(const ContainerLook&) const = default;
};
constexpr void list_fields(auto&& field, Of<ContainerLook> /*of*/) {
  field("at", &ContainerLook::at, "when it was looked at", Unit::kMoment);
  field("before", &ContainerLook::before_at, "when it was before", Unit::kMoment);
  field("process", &ContainerLook::process, "the process");
  field("grown", &ContainerLook::grown, "those with more items, the most first; 32 at the most");
  field("threads", &ContainerLook::threads, "of Python");
  field("in_crowd", &ContainerLook::in_crowd,
        "how many of them stand in the function of the program in which most do");
  field("crowd", &ContainerLook::crowd, "that function, at the line of one of them");
}

}  // namespace dlprobe
