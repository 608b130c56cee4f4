#include "lib/collect/snapshot/process_image.h"

#include <string>
#include <utility>

#include "lib/collect/tree/thread_waits.h"

namespace dlprobe {

ProcessImage::ProcessImage(const Machine& on, const SnapshotTarget& looked_at, KeptLooks& keeps)
    : machine(on),
      target(looked_at),
      kept(keeps),
      main_thread(image_thread(*looked_at.directory, looked_at.key.pid)),
      memory(on.processes, main_thread),
      python(memory, keeps.codes) {}

Status ProcessImage::open() {
  DLP_TRY(status, chain(target.directory->read("status"), parse_pid_status));
  directory = target.directory;
  if (main_thread != target.key.pid) {
    DLP_TRY(directory, target.directory->open_directory("task/" + std::to_string(main_thread)));
  }
  auto read = AddressSpace::read(*directory);
  if (read) {
    space = std::move(*read);
  } else if (read.error().code == ErrorCode::kForbidden) {
    forbidden = std::move(read).error();
  }
  return {};
}

}  // namespace dlprobe
