#include "lib/foreign/python_code.h"

#include <algorithm>
#include <array>
#include <string>

namespace dlprobe {
namespace {

constexpr auto kNowhere = std::string_view::npos;

// "multiprocessing/queues.py" of "/usr/lib/python3.11/multiprocessing/queues.py".
std::optional<std::string_view> path_in_standard_library(std::string_view file) {
  for (const std::string_view folder : {"/lib/python3", "/lib64/python3"}) {
    const size_t found = file.rfind(folder);
    if (found == kNowhere) continue;
    const size_t module = file.find('/', found + folder.size());
    if (module != kNowhere) return file.substr(module + 1);
  }
  // The archive of an embedded interpreter: ".../python311.zip/threading.py".
  constexpr std::string_view kArchive = ".zip/";
  const size_t archive = file.find(kArchive);
  if (archive == kNowhere) return std::nullopt;
  const size_t folder = file.rfind('/', archive);
  const std::string_view name = file.substr(folder == kNowhere ? 0 : folder + 1);
  if (!name.starts_with("python3")) return std::nullopt;
  return file.substr(archive + kArchive.size());
}

std::optional<std::string_view> path_in_packages(std::string_view file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const size_t found = file.rfind(folder);
    if (found != kNowhere) return file.substr(found + folder.size());
  }
  return std::nullopt;
}

// "<frozen concurrent.futures.thread>" of "concurrent/futures/thread.py", and how that of a folder
// begins.
std::string frozen_name(std::string_view module) {
  const size_t extension = module.rfind(".py");
  std::string name(module.substr(0, extension));
  std::ranges::replace(name, '/', '.');
  return "<frozen " + name + (extension == kNowhere ? "" : ">");
}

// A folder stands for all that is in it.
bool names(std::string_view path, std::string_view module) {
  return module.ends_with('/') ? path.starts_with(module) : path == module;
}

}  // namespace

std::optional<std::string_view> path_in_library(std::string_view file) {
  const auto package = path_in_packages(file);
  return package ? package : path_in_standard_library(file);
}

bool is_of_a_library(std::string_view file) {
  // cloudpickle's name for the file of a function that it sends as code, as loky and dask do.
  if (file == "<dynamic-code>") return false;
  return file.starts_with('<') || path_in_library(file).has_value();
}

bool is_of_standard_library(std::string_view file, std::string_view module) {
  if (path_in_packages(file)) return false;
  if (const auto path = path_in_standard_library(file)) return names(*path, module);
  if (file.starts_with('<')) {
    const std::string frozen = frozen_name(module);
    return frozen.ends_with('>') ? file == frozen : file.starts_with(frozen);
  }
  // A packer of programs (PyInstaller) leaves the path that `import` has; an interpreter that runs
  // where it was built has its library in Lib.
  constexpr std::string_view kSourceTree = "/Lib/";
  const size_t found = file.rfind(kSourceTree);
  return names(found == kNowhere ? file : file.substr(found + kSourceTree.size()), module);
}

bool is_of_multiprocessing(std::string_view file, std::string_view module) {
  const std::string name(module);
  if (is_of_standard_library(file, "multiprocessing/" + name)) return true;
  if (is_of_torch(file)) return file.contains("torch/multiprocessing/" + name);
  const std::string_view path = path_in_packages(file).value_or("");
  return names(path, "multiprocess/" + name) || names(path, "billiard/" + name);
}

bool is_of_torch(std::string_view file) {
  if (path_in_packages(file).value_or(file).starts_with("torch/")) return true;
  // An editable installation leaves PyTorch in the folder that it was built in.
  constexpr std::array<std::string_view, 3> kParts = {
      "/torch/utils/data/", "/torch/multiprocessing/", "/torch/distributed/"};
  return std::ranges::any_of(kParts, [file](std::string_view part) { return file.contains(part); });
}

}  // namespace dlprobe
