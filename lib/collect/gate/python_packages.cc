#include "lib/collect/gate/python_packages.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "lib/base/parse.h"
#include "lib/base/path_name.h"
#include "lib/foreign/libraries.h"
#include "lib/stacks/native/elf_file.h"

namespace dlprobe {
namespace {

constexpr size_t kMostRecord = size_t{32} << 20U;
constexpr size_t kMostModules = 20'000;  ///< of one package
constexpr int kMostDepth = 8;
constexpr std::string_view kDistInfo = ".dist-info";
constexpr std::string_view kEggInfo = ".egg-info";

// As PEP 503 has it: case, '-', '_' and '.' make no difference.
std::string normalized(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const bool is_dash = c == '-' || c == '_' || c == '.';
    if (is_dash && result.ends_with('-')) continue;
    result += is_dash ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

bool is_library(std::string_view path) {
  const std::string_view name = base_name(path);
  return name.ends_with(".so") || name.contains(".so.");
}

/// A package with the libraries that it brings.
struct FoundPackage {
  PythonPackage package;
  std::string folder;                 ///< the one of sys.path that it is in
  std::vector<std::string> binaries;  ///< absolute paths
};

// "scikit_learn-1.5.0.dist-info": what stands before the first '-', and what is behind it.
std::optional<PythonPackage> package_of(const std::string& folder, std::string_view entry) {
  std::string_view stem = entry;
  for (const std::string_view suffix : {kDistInfo, kEggInfo}) {
    if (stem.ends_with(suffix)) stem.remove_suffix(suffix.size());
  }
  if (stem.size() == entry.size()) return std::nullopt;
  const size_t dash = stem.find('-');
  std::string_view version = dash == std::string_view::npos ? "" : stem.substr(dash + 1);
  if (entry.ends_with(kEggInfo)) version = version.substr(0, version.find("-py"));
  return PythonPackage{.name = normalized(stem.substr(0, dash)),
                       .version = std::string(version),
                       .path = folder + "/" + std::string(entry)};
}

/// Reads folders until its time is up.
class PackageLook {
 public:
  PackageLook(const Directory& root, const Clock& clock, const PackageFolders& where)
      : root_(root), clock_(clock), where_(where) {}

  void run(PythonFacts& facts);

 private:
  bool is_late() {
    if (clock_.now() >= where_.end) is_late_ = true;
    return is_late_;
  }
  void read_folder(const std::string& folder);
  void add_opencv_without_metadata(const std::string& folder,
                                   const std::vector<std::string>& entries);
  void read_binaries(FoundPackage& found);
  static void read_record(FoundPackage& found, std::string_view record);
  void walk(const std::string& path, int depth, std::vector<std::string>& binaries);
  void read_conda(PythonFacts& facts);
  static void note_owned(const std::string& text, std::map<std::string, std::string>& owned);
  void compare(const std::string& name, const std::string& version, PythonFacts& facts) const;

  // What the dynamic linker would do.
  struct Binary {
    std::string name;                ///< DT_SONAME, or the file's
    std::vector<std::string> needs;  ///< absolute paths
  };
  const Binary* binary(const std::string& path);
  std::string resolve(const std::string& needed, const ElfFile::Linking& linking,
                      const std::string& of) const;
  void follow(const FoundPackage& found, PythonFacts& facts);
  void note_library(const std::string& path, const std::string& package, PythonFacts& facts);
  bool is_runtime(const std::string& path) const;

  const Directory& root_;
  const Clock& clock_;
  const PackageFolders& where_;
  std::vector<FoundPackage> found_;
  std::map<std::string, std::optional<Binary>> binaries_;    ///< by path
  std::map<std::pair<uint64_t, uint64_t>, size_t> by_file_;  ///< device and inode: of libraries
  bool is_late_ = false;
};

void PackageLook::read_folder(const std::string& folder) {
  auto entries = root_.list(folder);
  if (!entries) return;
  std::ranges::sort(*entries);
  for (const std::string& entry : *entries) {
    auto package = package_of(folder, entry);
    if (!package || is_late()) continue;
    package->installer = std::string(trim(root_.read(package->path + "/INSTALLER").value_or("")));
    found_.push_back({.package = std::move(*package), .folder = folder});
  }
  add_opencv_without_metadata(folder, *entries);
}

// Debian's has none.
void PackageLook::add_opencv_without_metadata(const std::string& folder,
                                              const std::vector<std::string>& entries) {
  const bool has_metadata = std::ranges::any_of(found_, [&](const FoundPackage& each) {
    return each.folder == folder && each.package.name.starts_with("opencv-");
  });
  const auto module = std::ranges::find_if(entries, [](const std::string& name) {
    return name == "cv2" || (name.starts_with("cv2.") && name.ends_with(".so"));
  });
  if (has_metadata || module == entries.end()) return;
  FoundPackage found{.package = {.name = "opencv-python", .path = folder + "/" + *module},
                     .folder = folder};
  if (module->ends_with(".so")) found.binaries.push_back(found.package.path);
  found_.push_back(std::move(found));
}

void PackageLook::read_record(FoundPackage& found, std::string_view record) {
  for_each_line(record, [&found](std::string_view path) {
    path = path.substr(0, path.find(','));
    if (path.starts_with('"')) path = path.substr(1, path.find('"', 1) - 1);
    if (!is_library(path) || found.binaries.size() >= kMostModules) return;
    found.binaries.push_back(path.starts_with('/') ? std::string(path)
                                                   : found.folder + "/" + std::string(path));
  });
}

void PackageLook::walk(const std::string& path, int depth, std::vector<std::string>& binaries) {
  if (depth > kMostDepth || is_late()) return;
  const auto entries = root_.list(path);
  if (!entries) return;
  for (const std::string& entry : *entries) {
    std::string inner = path;
    inner.append("/").append(entry);
    if (is_library(entry)) {
      if (binaries.size() < kMostModules) binaries.push_back(inner);
      continue;
    }
    if (entry.contains('.') && !entry.ends_with(".libs")) continue;
    const auto stat = root_.stat_link(inner);
    if (stat && S_ISDIR(stat->mode)) walk(inner, depth + 1, binaries);
  }
}

void PackageLook::read_binaries(FoundPackage& found) {
  if (!found.binaries.empty()) return;
  if (const auto record = root_.read(found.package.path + "/RECORD", kMostRecord)) {
    return read_record(found, *record);
  }
  std::string names = root_.read(found.package.path + "/top_level.txt").value_or("");
  if (names.empty()) names = base_name(found.package.path);  // cv2 without metadata
  for_each_line(names, [&](std::string_view line) {
    const std::string_view name = trim(line);
    if (!name.empty() && !name.contains('/'))
      walk(found.folder + "/" + std::string(name), 0, found.binaries);
  });
}

std::string PackageLook::resolve(const std::string& needed, const ElfFile::Linking& linking,
                                 const std::string& of) const {
  if (needed.contains('/')) return needed;
  std::vector<std::string> folders;
  const std::string origin = of.substr(0, of.rfind('/'));
  for (const std::string_view part : split(linking.search, ':')) {
    std::string folder(part);
    for (const std::string_view word : {"$ORIGIN", "${ORIGIN}"}) {
      if (const size_t at = folder.find(word); at != std::string::npos)
        folder.replace(at, word.size(), origin);
    }
    folders.push_back(std::move(folder));
  }
  folders.insert(folders.end(), where_.library_path.begin(), where_.library_path.end());
  for (const char* folder :
       {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"})
    folders.emplace_back(folder);
  for (const std::string& folder : folders) {
    std::string path = folder;
    path.append("/").append(needed);
    if (folder.starts_with('/') && root_.stat(path)) return path;
  }
  return "";
}

const PackageLook::Binary* PackageLook::binary(const std::string& path) {
  const auto known = binaries_.find(path);
  if (known != binaries_.end()) {
    const std::optional<Binary>& read_before = known->second;
    return read_before ? &*read_before : nullptr;
  }
  std::optional<Binary>& kept = binaries_[path];
  auto file = root_.open_file(path);
  if (!file) return nullptr;
  const auto elf = ElfFile::open(std::move(*file), path);
  if (!elf) return nullptr;
  const ElfFile::Linking linking = (*elf)->linking();
  Binary read{.name = linking.name};
  if (read.name.empty()) read.name = base_name(path);
  for (const std::string& needed : linking.needed) {
    if (is_language_runtime(needed)) continue;
    std::string found = resolve(needed, linking, path);
    if (!found.empty()) read.needs.push_back(std::move(found));
  }
  return &kept.emplace(std::move(read));
}

// A file may call itself so and be something else.
bool PackageLook::is_runtime(const std::string& path) const {
  auto file = root_.open_file(path);
  if (!file) return false;
  const auto elf = ElfFile::open(std::move(*file), path);
  return elf && (*elf)->symbol("omp_get_max_threads").has_value();
}

void PackageLook::note_library(const std::string& path, const std::string& package,
                               PythonFacts& facts) {
  const auto stat = root_.stat(path);
  const Binary* of_path = binary(path);
  if (!stat || of_path == nullptr) return;
  const bool is_known = by_file_.contains({stat->device, stat->inode});
  const ThreadKeeper keeper = thread_keeper(of_path->name);
  if (!is_known && is_openmp(of_path->name) && !is_runtime(path)) return;
  if (keeper == ThreadKeeper::kNone) return;
  // The dynamic linker takes for the same what has the same name, or is the same file.
  auto same = is_known ? facts.libraries.begin() +
                             static_cast<std::ptrdiff_t>(by_file_[{stat->device, stat->inode}])
                       : std::ranges::find(facts.libraries, of_path->name, &ThreadLibrary::name);
  if (same == facts.libraries.end()) {
    facts.libraries.push_back({.name = of_path->name});
    same = facts.libraries.end() - 1;
  }
  if (!is_known) same->files.push_back(path);
  by_file_[{stat->device, stat->inode}] = static_cast<size_t>(same - facts.libraries.begin());
  if (std::ranges::find(same->packages, package) == same->packages.end())
    same->packages.push_back(package);
}

// Every module of the package, and what these load.
void PackageLook::follow(const FoundPackage& found, PythonFacts& facts) {
  std::vector<std::string> to_do = found.binaries;
  std::set<std::string> seen(to_do.begin(), to_do.end());
  while (!to_do.empty() && !is_late()) {
    const std::string path = std::move(to_do.back());
    to_do.pop_back();
    const Binary* each = binary(path);
    if (each == nullptr) continue;
    if (thread_keeper(each->name) != ThreadKeeper::kNone)
      note_library(path, found.package.name, facts);
    for (const std::string& needed : each->needs) {
      if (seen.insert(needed).second) to_do.push_back(needed);
    }
  }
}

// "…/site-packages/numpy-1.26.4.dist-info/METADATA" in the list of files of a conda package.
void PackageLook::note_owned(const std::string& text, std::map<std::string, std::string>& owned) {
  constexpr std::string_view kMetadata = ".dist-info/METADATA\"";
  for (size_t at = text.find(kMetadata); at != std::string::npos;
       at = text.find(kMetadata, at + 1)) {
    const size_t begin = text.find_last_of("/\"", at);
    if (begin == std::string::npos) continue;
    const auto package =
        package_of("", text.substr(begin + 1, at - begin - 1) + std::string(kDistInfo));
    if (package) owned[package->name] = package->version;
  }
}

// What conda owns under that name against what is there.
void PackageLook::compare(const std::string& name, const std::string& version,
                          PythonFacts& facts) const {
  CondaOverlap overlap{.name = name, .conda_version = version};
  for (const FoundPackage& each : found_) {
    const PythonPackage& package = each.package;
    const bool is_of_conda = package.installer.empty() || package.installer == "conda";
    const bool is_here = package.path.starts_with(where_.prefix + "/");
    if (package.name != name || !is_here) continue;
    if (package.version != version || !is_of_conda) overlap.others.push_back(package);
  }
  if (!overlap.others.empty()) facts.overlaps.push_back(std::move(overlap));
}

void PackageLook::read_conda(PythonFacts& facts) {
  const std::string folder = where_.prefix + "/conda-meta/";
  const auto entries = root_.list(folder);
  if (!entries) return;
  std::map<std::string, std::string> owned;  // version by name
  for (const std::string& entry : *entries) {
    if (!entry.ends_with(".json") || is_late()) continue;
    if (const auto text = root_.read(folder + entry, kMostRecord)) note_owned(*text, owned);
  }
  for (const auto& [name, version] : owned)
    compare(name, version, facts);
}

void PackageLook::run(PythonFacts& facts) {
  for (const std::string& folder : where_.folders) {
    if (!is_late()) read_folder(folder);
  }
  std::set<std::string> seen;
  for (FoundPackage& found : found_) {
    // Of two the one that comes first on the path is imported.
    if (!seen.insert(found.package.name).second || is_late()) continue;
    read_binaries(found);
    follow(found, facts);
    if (std::ranges::count(loader_packages(), std::string_view(found.package.name)) > 0)
      facts.packages.push_back(found.package);
  }
  if (!where_.prefix.empty()) read_conda(facts);
  if (is_late_) facts.not_read = "the deadline came before all packages were read";
}

}  // namespace

void look_at_packages(const Directory& root, const Clock& clock, const PackageFolders& where,
                      PythonFacts& facts) {
  PackageLook(root, clock, where).run(facts);
}

}  // namespace dlprobe
