#include "probes/memory/remedies.h"

#include <utility>

#include "lib/base/units.h"
#include "probes/facts/deaths.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::memory {
namespace {

Remedy fewer_workers(const Run& run, Message title) {
  Remedy remedy{.title = std::move(title), .verify = "dlprobe memory -- COMMAND"};
  add_smaller_loader(remedy, run);
  return remedy;
}

constexpr const char* kEachHasACopy = "Use fewer workers: each has a copy";

Remedy end_workers(const Run& run) {
  if (!has_data_loader(run)) {
    return {.title = "Until you find it: let each worker of a pool end after some tasks",
            .commands = {"multiprocessing.Pool(..., maxtasksperchild=100)"},
            .verify = "dlprobe memory --pid PID --for 5m"};
  }
  return {.title = "Until you find it: let workers end with each epoch",
          .commands = {"DataLoader(..., persistent_workers=False)"},
          .verify = "dlprobe memory --pid PID --for 5m"};
}

}  // namespace

std::vector<Remedy> remedies_for_copy_on_write(const Run& run) {
  return {{.title = "Keep the dataset in an array, not a list or dict of Python objects: reading "
                    "an object writes its reference count, and an array has only one",
           .commands = {"self.paths = numpy.array(paths, dtype=numpy.bytes_)",
                        "self.labels = torch.tensor(labels)"},
           .verify = "dlprobe memory -- COMMAND"},
          {.title = "Or keep it in one block of bytes, and unpickle each sample from it",
           .commands = {"self.blob = numpy.frombuffer(b''.join(map(pickle.dumps, samples)), "
                        "dtype=numpy.uint8)  # and an array of offsets"},
           .verify = "dlprobe memory -- COMMAND"},
          fewer_workers(run, kEachHasACopy)};
}

std::vector<Remedy> remedies_for_leak(const Run& run, bool is_worker) {
  if (!is_worker) {
    return {{.title = "Find what it keeps from step to step: a loss with its graph, a list of "
                      "outputs, an unbounded cache, a reader thread that runs ahead",
             .commands = {"total += loss.item()  # not: total += loss",
                          "kept.append(output.detach().cpu())",
                          "@functools.lru_cache(maxsize=1000)  # not: maxsize=None"},
             .verify = "dlprobe memory --pid PID --for 5m"},
            {.title = "See which lines allocate it",
             .commands = {"memray run train.py"},
             .verify = "dlprobe memory -- COMMAND"}};
  }
  const bool has_loader = has_data_loader(run);
  const Message what = has_loader ? "the dataset keeps between samples" : "it keeps between tasks";
  std::vector<Remedy> remedies = {
      {.title = "Find what " + what +
                ": an unbounded cache, a growing list, a file or decoder that "
                "is never closed",
       .commands = {"@functools.lru_cache(maxsize=1000)  # not: maxsize=None"},
       .verify = "dlprobe memory --pid PID --for 5m"}};
  if (has_loader) {
    remedies.push_back(
        {.title = "See which lines allocate it: run the dataset by itself",
         .commands = {"memray run -c 'import train; [train.dataset[i] for i in range(10000)]'"},
         .verify = "dlprobe memory -- COMMAND"});
  }
  remedies.push_back(end_workers(run));
  return remedies;
}

std::vector<Remedy> remedies_for_shared_growth(const Run& run, bool is_trainer) {
  if (is_trainer) {
    return {{.title = "Keep numbers, not batches: a worker's batch stays in shared memory while "
                      "one of its tensors lives",
             .commands = {"losses.append(loss.item())  # a number instead of a tensor",
                          "kept.append(batch[:4].clone())  # a copy, of no more than is needed"},
             .verify = "dlprobe memory -- COMMAND"}};
  }
  return {{.title = "Free shared segments: close a segment where it was used, and unlink it "
                    "once",
           .commands = {"segment.close(); segment.unlink()  # multiprocessing.shared_memory",
                        "del tensor  # each mapping lives as long as what points to it"},
           .verify = "dlprobe memory -- COMMAND"},
          end_workers(run)};
}

std::vector<Remedy> remedies_for_pinned_growth() {
  return {{.title = "Use pinned buffers again, and keep none of them: each pin_memory() takes new "
                    "memory, which lives as long as its tensor",
           .commands = {"buffer.copy_(batch)  # one buffer, made before the loop",
                        "kept.append(batch.clone())  # a copy in ordinary memory"},
           .verify = "dlprobe memory -- COMMAND"}};
}

std::vector<Remedy> remedies_for_backlog(const Run& run) {
  return {{.title = "Limit how far workers run ahead of the training loop",
           .commands = {"DataLoader(..., prefetch_factor=2)",
                        "multiprocessing.Queue(maxsize=8)  # not: Queue()"},
           .verify = "dlprobe memory --pid PID",
           .settings = {{SettingKind::kPrefetchFactor, "", "2"}}},
          fewer_workers(run, "Use fewer workers: the training loop cannot keep up with these")};
}

std::vector<Remedy> remedies_for_swap(const Run& run) {
  Remedy less{.title = "Use less memory: fewer workers, smaller prefetch, smaller batches",
              .verify = "dlprobe memory --pid PID"};
  add_smaller_loader(less, run, 1);
  return {std::move(less),
          {.title = "See who else uses the memory of this machine",
           .commands = {"ps -eo pid,rss,comm --sort=-rss | head"},
           .applies_to = {"bare-host"},
           .verify = "vmstat 1"}};
}

std::vector<Remedy> remedies_for_limit(const Run& run, uint64_t bytes) {
  const OwnWords mib = own(bytes / kMiB);
  return {{.title = "Give the job more memory",
           .commands = {"docker run --memory=" + mib + "m ..."},
           .applies_to = {"docker"},
           .verify = "dlprobe memory --pid PID"},
          {.title = "Give the job more memory",
           .commands = {"resources: {limits: {memory: " + mib + "Mi}}"},
           .applies_to = {"kubernetes"},
           .verify = "dlprobe memory --pid PID"},
          {.title = "Give the job more memory",
           .commands = {"sbatch --mem=" + mib + "M ..."},
           .applies_to = {"slurm"},
           .verify = "dlprobe memory --pid PID"},
          fewer_workers(run, kEachHasACopy)};
}

}  // namespace dlprobe::probes::memory
