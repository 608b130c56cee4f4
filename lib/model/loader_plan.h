#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fields.h"

namespace dlprobe {

/// How worker processes come to be, with the names of Python's multiprocessing.
enum class StartMethod { kFork, kSpawn, kForkserver };
template <>
struct Names<StartMethod> {
  static constexpr auto kList = std::to_array<std::string_view>({"fork", "spawn", "forkserver"});
};

/// How a tensor in shared memory is handed over, with the names of torch.multiprocessing.
enum class SharingStrategy { kFileDescriptor, kFileSystem };
template <>
struct Names<SharingStrategy> {
  static constexpr auto kList = std::to_array<std::string_view>({"file_descriptor", "file_system"});
};

/// Element types that a sample may have, with torch's names.
struct Dtype {
  std::string_view name;   ///< "float32"
  uint64_t element_bytes;  ///< 4
};
inline constexpr std::array<Dtype, 4> kDtypes = {
    {{"float32", 4}, {"float16", 2}, {"bfloat16", 2}, {"uint8", 1}}};
/// The size of one element in bytes; nothing for a name that is not in kDtypes.
std::optional<uint64_t> dtype_bytes(std::string_view name);

/// What a loader is asked to do: the loader options of the command line. The same wherever a loader
/// is meant: the reference loader, a forecast, a gate.
struct LoaderPlan {
  int workers = 2;
  int batch_size = 32;
  std::vector<int64_t> sample_shape = {3, 224, 224};
  std::string dtype = "float32";
  int prefetch_factor = 2;
  StartMethod start_method = StartMethod::kFork;
  SharingStrategy sharing_strategy = SharingStrategy::kFileDescriptor;
  bool pin_memory = false;
  bool persistent_workers = false;
  int epochs = 1;
  int batches = 0;
  std::string device = "auto";
  std::string data_dir;
  int data_sample = 0;
  std::string fault;

  bool operator==(const LoaderPlan&) const = default;
};
constexpr void list_fields(auto&& field, Of<LoaderPlan> /*of*/) {
  field("workers", &LoaderPlan::workers, "worker processes; 0: the trainer loads");
  field("batch_size", &LoaderPlan::batch_size, "samples in a batch");
  field("sample_shape", &LoaderPlan::sample_shape, "channels x height x width");
  field("dtype", &LoaderPlan::dtype, "float32, float16, bfloat16 or uint8");
  field("prefetch_factor", &LoaderPlan::prefetch_factor, "batches in flight per worker");
  field("start_method", &LoaderPlan::start_method, "how workers come to be");
  field("sharing_strategy", &LoaderPlan::sharing_strategy, "how tensors are handed over");
  field("pin_memory", &LoaderPlan::pin_memory, "batches are copied to pinned memory");
  field("persistent_workers", &LoaderPlan::persistent_workers, "workers live on between epochs");
  field("epochs", &LoaderPlan::epochs, "how often the data is gone through");
  field("batches", &LoaderPlan::batches, "batches per epoch; 0: what the data gives");
  field("device", &LoaderPlan::device, "auto, cpu, cuda or cuda:N");
  field("data", &LoaderPlan::data_dir, "the folder with images; empty: built-in ones");
  field("data_sample", &LoaderPlan::data_sample,
        "At most so many images of data_dir, the first that are found; built-in ones where none "
        "is. 0: all of them, and there must be one.");
  field("fault", &LoaderPlan::fault, "\"NAME[:k=v,...]\"; empty: none");
}

/// Bytes of one sample's tensor.
uint64_t sample_bytes(const LoaderPlan& plan);

}  // namespace dlprobe
