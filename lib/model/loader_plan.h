#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlprobe {

/// How worker processes come to be, with the names of Python's multiprocessing.
enum class StartMethod { kFork, kSpawn, kForkserver };
inline constexpr std::array kStartMethods = {StartMethod::kFork, StartMethod::kSpawn,
                                             StartMethod::kForkserver};

/// How a tensor in shared memory is handed over, with the names of torch.multiprocessing.
enum class SharingStrategy { kFileDescriptor, kFileSystem };
inline constexpr std::array kSharingStrategies = {SharingStrategy::kFileDescriptor,
                                                  SharingStrategy::kFileSystem};

std::string_view to_string(StartMethod method);        ///< "fork", "spawn", "forkserver"
std::string_view to_string(SharingStrategy strategy);  ///< "file_descriptor", "file_system"
std::optional<StartMethod> start_method_from_string(std::string_view name);
std::optional<SharingStrategy> sharing_strategy_from_string(std::string_view name);

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
  std::vector<int64_t> sample_shape = {3, 224, 224};  ///< channels x height x width
  std::string dtype = "float32";                      ///< a name in kDtypes
  int prefetch_factor = 2;                            ///< batches in flight per worker
  StartMethod start_method = StartMethod::kFork;
  SharingStrategy sharing_strategy = SharingStrategy::kFileDescriptor;
  bool pin_memory = false;
  bool persistent_workers = false;
  int epochs = 1;
  int batches = 0;              ///< batches per epoch; 0: what the data gives
  std::string device = "auto";  ///< "auto", "cpu", "cuda", "cuda:N"
  std::string data_dir;         ///< empty: built-in images
  /// At most so many images of data_dir, the first that are found; built-in ones where none is. 0:
  /// all of them, and there must be one.
  int data_sample = 0;
  std::string fault;  ///< "NAME[:k=v,...]"; empty: none

  bool operator==(const LoaderPlan&) const = default;
};

/// Bytes of one sample's tensor.
uint64_t sample_bytes(const LoaderPlan& plan);

}  // namespace dlprobe
