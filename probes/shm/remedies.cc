#include "probes/shm/remedies.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "lib/base/units.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::shm {
namespace {

constexpr uint64_t kContainerDefault = 64 * kMiB;  // of Docker, containerd and Podman
constexpr size_t kMostCommands = 8;

Remedy for_bare_host(const Facts& facts, uint64_t size) {
  const Message where = facts.where();
  return {.title = "Make " + where + " " + format_bytes(size) +
                   " large (until the next boot; "
                   "for good: size=" +
                   size_option(size) + " in its line of /etc/fstab)",
          .commands = {"sudo mount -o remount,size=" + size_option(size) + " " + where},
          .applies_to = {"bare-host"},
          .verify = "df -h " + where};
}

Remedy for_docker(const Facts& facts, uint64_t size, const OwnWords& engine) {
  return {.title = "Start the container with " + format_bytes(size) +
                   " of shared memory (default: 64 MiB), or share the host's (--ipc=host)",
          .commands = {engine + " run --shm-size=" + size_option(size) + " ..."},
          .applies_to = {"docker"},
          .verify = engine + " exec CONTAINER df -h " + facts.where()};
}

Remedy for_kubernetes(const Facts& facts, uint64_t size) {
  const Message where = facts.where();
  return {.title = "Mount an emptyDir of medium Memory on " + where +
                   " in the pod's spec (it counts against the pod's memory limit: raise that too)",
          .commands = {"volumes: [{name: dshm, emptyDir: {medium: Memory, sizeLimit: " +
                           own(size / kMiB) + "Mi}}]",
                       "volumeMounts: [{name: dshm, mountPath: " + where + "}]"},
          .applies_to = {"kubernetes"},
          .verify = "kubectl exec POD -- df -h " + where};
}

Remedy for_slurm(const Facts& facts, uint64_t size) {
  return {.title = "Ask for " + format_bytes(size) +
                   " more memory (shared memory counts against the job's limit), and ask the "
                   "administrator for a larger " +
                   facts.where() + " on the nodes",
          .commands = {"sbatch --mem=<now + " + size_option(size) + "> ..."},
          .applies_to = {"slurm"},
          .verify = "srun df -h " + facts.where()};
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '-' && std::ranges::all_of(name, [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.');
  });
}

Message remove_command(const Message& where, const ShmSegment& segment) {
  const bool by_creator =
      segment.kind == SegmentKind::kTorchTensor && segment.creator_pid.has_value();
  if (by_creator) return "rm -f " + where + "/torch_" + own(*segment.creator_pid) + "_*";
  if (segment.name && is_plain_name(*segment.name))
    return "rm -f " + where + "/" + as_path(*segment.name);
  return "find " + where + " -xdev -inum " + own(segment.inode) + " -delete";
}

}  // namespace

uint64_t comfortable_size(uint64_t needed_bytes) {
  const uint64_t with_margin = needed_bytes + needed_bytes / 4;
  uint64_t step = kGiB;
  if (with_margin < 8 * kGiB) step = 256 * kMiB;
  if (with_margin < kGiB) step = 64 * kMiB;
  return round_up_to_pages(std::max<uint64_t>(with_margin, 1), step);
}

OwnWords size_option(uint64_t bytes) {
  if (bytes % kGiB == 0) return own(bytes / kGiB) + "g";
  return own((bytes + kMiB - 1) / kMiB) + "m";
}

namespace {

std::vector<Remedy> ways_to_size(const Facts& facts, uint64_t size_bytes) {
  if (facts.run->begin.own_shm_bytes) {
    return {{.title = "Give the command a larger /dev/shm: dlprobe made this one (--shm-size)",
             .commands = {"dlprobe run --shm-size " + size_option(size_bytes) + " -- COMMAND"}}};
  }
  const std::string& container = facts.header->host.container;
  if (container == "kubernetes") return {for_kubernetes(facts, size_bytes)};
  if (container == "docker" || container == "podman") {
    return {for_docker(facts, size_bytes, own(container))};
  }
  if (container == "slurm") return {for_slurm(facts, size_bytes)};
  // A container that dlprobe looks at from outside, or one that is not known by its marks.
  if (!container.empty() || facts.size_bytes() == kContainerDefault) {
    return {for_docker(facts, size_bytes, "docker"), for_kubernetes(facts, size_bytes),
            for_bare_host(facts, size_bytes)};
  }
  return {for_bare_host(facts, size_bytes)};
}

}  // namespace

std::vector<Remedy> remedies_for_size(const Facts& facts, uint64_t size_bytes) {
  std::vector<Remedy> remedies = ways_to_size(facts, size_bytes);
  for (Remedy& remedy : remedies)
    remedy.settings = {{SettingKind::kShmSize, "", own(size_bytes)}};
  return remedies;
}

Remedy remedy_for_inodes(const Facts& facts, uint64_t inodes) {
  const Message where = facts.where();
  const std::string& container = facts.header->host.container;
  Remedy remedy{.title = "Allow more files in " + where, .verify = "df -i " + where};
  if (container == "docker" || container == "podman") {
    remedy.commands = {own(container) + " run --tmpfs " + where + ":rw,exec,size=" +
                       size_option(facts.size_bytes()) + ",nr_inodes=" + own(inodes) + " ..."};
    remedy.applies_to = {"docker"};
  } else {
    remedy.commands = {"sudo mount -o remount,nr_inodes=" + own(inodes) + " " + where};
    remedy.applies_to = {"bare-host"};
  }
  return remedy;
}

namespace {

std::vector<Remedy> fewer_batches(const Facts& facts) {
  if (facts.most_workers == 0) return {};
  Remedy remedy{.title = "Keep fewer batches in flight: fewer workers, a smaller prefetch_factor",
                .verify = "dlprobe shm -- COMMAND"};
  add_smaller_loader(remedy, *facts.run, 1);
  return {std::move(remedy)};
}

}  // namespace

std::vector<Remedy> remedies_in_code(const Facts& facts, const Demand& demand) {
  const uint64_t size = facts.size_bytes();
  if (size == 0) return {};
  // It failed before a whole batch was seen: half may do.
  if (demand.batch_bytes == 0) return fewer_batches(facts);
  if (demand.most_bytes <= size / 5 * 4) return {};
  const LoaderPlan* plan = facts.run->begin.plan ? &*facts.run->begin.plan : nullptr;
  const uint64_t workers =
      plan != nullptr ? static_cast<uint64_t>(std::max(plan->workers, 0)) : facts.most_workers;
  const uint64_t batches = (size - size / 10) / demand.batch_bytes;
  Remedy remedy{.applies_to = {"code"}, .verify = "dlprobe shm -- COMMAND"};
  // One in the training loop, and one more for a moment: see Demand.
  constexpr uint64_t kBesidePrefetched = 2;
  if (batches > kBesidePrefetched && workers >= 1) {
    const uint64_t fitting = std::min(workers, batches - kBesidePrefetched);
    remedy.title = "Keep at most " + counted(batches, "batch") +
                   " in flight: fewer workers, a smaller prefetch_factor";
    remedy.commands = {"DataLoader(..., num_workers=" + own(fitting) + ", prefetch_factor=1)"};
    remedy.settings = {{SettingKind::kPrefetchFactor, "", "1"},
                       {SettingKind::kNumWorkers, "", own(fitting)}};
  } else {
    remedy.title =
        "Use smaller batches: three must fit, each is " + format_bytes(demand.batch_bytes);
    remedy.commands = {"DataLoader(..., batch_size=<smaller>, num_workers=1, prefetch_factor=1)"};
  }
  return {remedy};
}

std::vector<Remedy> remedies_remove(const Facts& facts,
                                    const std::vector<const ShmSegment*>& segments) {
  const Message where = facts.where();
  const Remedy empty{.title = "Remove the files that no process has open",
                     .applies_to = {"bare-host", "docker", "kubernetes", "slurm"},
                     .verify = "df -h " + where};
  Remedy of_dead = empty;
  Remedy of_unnamed = empty;
  of_unnamed.title =
      "Their names do not say who made them: remove them only if no job still needs them";
  std::set<std::string> known;
  for (const ShmSegment* segment : segments) {
    // Who lives has a semaphore mapped, but need not keep a shared block open.
    Remedy& remedy = segment->kind == SegmentKind::kPythonShared ? of_unnamed : of_dead;
    const Message command = remove_command(where, *segment);
    if (remedy.commands.size() < kMostCommands && known.insert(command.plain()).second) {
      remedy.commands.push_back(command);
    }
  }
  std::vector<Remedy> remedies;
  for (Remedy* remedy : {&of_dead, &of_unnamed})
    if (!remedy->commands.empty()) remedies.push_back(std::move(*remedy));
  return remedies;
}

Remedy remedy_look(const Facts& facts) {
  const Message where = facts.where();
  return {.title = "See who holds what in " + where,
          .commands = {"sudo lsof +D " + where, "sudo lsof -nP | grep " + where},
          .applies_to = {"bare-host", "docker", "kubernetes", "slurm"},
          .verify = "df -h " + where};
}

}  // namespace dlprobe::probes::shm
