#include "reports/redact/public_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <unordered_set>

#include "lib/base/lower_case.h"
#include "lib/model/finding.h"
#include "reports/model/report.h"
#include "reports/redact/letters.h"

namespace dlprobe {
namespace {

using Words = std::unordered_set<std::string_view>;

template <size_t N>
bool starts_with_one_of(std::string_view text, const std::array<std::string_view, N>& beginnings) {
  return std::ranges::any_of(
      beginnings, [text](std::string_view beginning) { return text.starts_with(beginning); });
}

void add_words(std::string_view text, std::unordered_set<std::string>& words) {
  while (!text.empty()) {
    const auto end = std::ranges::find_if_not(text, is_letter);
    const auto length = static_cast<size_t>(end - text.begin());
    if (length > 0) words.insert(lower_case(text.substr(0, length)));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
}

std::unordered_set<std::string> collect_own_words() {
  std::unordered_set<std::string> words;
  add_words(report_schema(), words);
  for (const FindingInfo& each : all_findings()) {
    add_words(each.title, words);
    add_words(finding_page(each.id), words);
  }
  // Of pseudonyms, of units and of error texts of the C library that no page has.
  add_words(
      "host user path address bucket name no such file or directory input output n/a "
      "permission denied operation not permitted resource temporarily unavailable MiB KiB "
      "GiB kB s min ms us img imgs images samples batches epoch step it GB MB Mbit Gbit sec "
      "and or read write client server on off true false yes km h tx rx tcp udp GNU Linux Debian "
      "Ubuntu",
      words);
  return words;
}

/// "python", "python3", "python3.11", "python3.11-config".
bool is_python_name(std::string_view name) {
  constexpr std::string_view kPython = "python";
  if (!name.starts_with(kPython)) return false;
  name.remove_prefix(kPython.size());
  return name.empty() || is_numeric(name) || name == "3-dbg";
}

/// "memory.max", "cpu.stat": files of a cgroup.
bool is_cgroup_file(std::string_view name) {
  constexpr std::array<std::string_view, 8> kControllers = {
      "memory.", "cpu.", "cpuset.", "pids.", "cpuacct.", "io.", "cgroup.", "hugetlb."};
  return starts_with_one_of(name, kControllers);
}

constexpr auto kCommonNames = std::to_array<std::string_view>({".",
                                                               "..",
                                                               "bin",
                                                               "sbin",
                                                               "lib",
                                                               "lib32",
                                                               "lib64",
                                                               "libexec",
                                                               "include",
                                                               "share",
                                                               "etc",
                                                               "opt",
                                                               "src",
                                                               "tmp",
                                                               "var",
                                                               "run",
                                                               "log",
                                                               "logs",
                                                               "cache",
                                                               ".cache",
                                                               ".config",
                                                               ".local",
                                                               "venv",
                                                               ".venv",
                                                               "env",
                                                               "envs",
                                                               ".env",
                                                               "conda",
                                                               "miniconda3",
                                                               "anaconda3",
                                                               "miniforge3",
                                                               "mambaforge",
                                                               ".conda",
                                                               ".pyenv",
                                                               "versions",
                                                               "pkgs",
                                                               "shims",
                                                               "site-packages",
                                                               "dist-packages",
                                                               "home",
                                                               "Users",
                                                               "users",
                                                               "root",
                                                               "mnt",
                                                               "srv",
                                                               "media",
                                                               "scratch",
                                                               "work",
                                                               "workspace",
                                                               "data",
                                                               "dataset",
                                                               "datasets",
                                                               "train",
                                                               "val",
                                                               "valid",
                                                               "test",
                                                               "tests",
                                                               "app",
                                                               "apps",
                                                               "code",
                                                               "build",
                                                               "dist",
                                                               "out",
                                                               "output",
                                                               "outputs",
                                                               "checkpoints",
                                                               "models",
                                                               "scripts",
                                                               "examples",
                                                               "__pycache__",
                                                               "main.py",
                                                               "train.py",
                                                               "test.py",
                                                               "setup.py",
                                                               "run.py",
                                                               "__init__.py",
                                                               "__main__.py",
                                                               "conftest.py",
                                                               "nfs",
                                                               "lustre",
                                                               "gpfs",
                                                               "usr",
                                                               "local",
                                                               "proc",
                                                               "sys",
                                                               "dev",
                                                               "shm",
                                                               "fs",
                                                               "cgroup",
                                                               "null",
                                                               "dlprobe",
                                                               "dlprobe.toml",
                                                               "system.slice",
                                                               "user.slice",
                                                               "kubepods",
                                                               "kubepods.slice",
                                                               "init.scope",
                                                               "docker",
                                                               "slurm",
                                                               "Program",
                                                               "Windows",
                                                               "AppData",
                                                               "Local",
                                                               "Temp",
                                                               "kubepods-burstable.slice",
                                                               "kubepods-besteffort.slice",
                                                               "bash",
                                                               "sh",
                                                               "env.sh"});

}  // namespace

bool is_own_word(std::string_view word) {
  static const std::unordered_set<std::string> words = collect_own_words();
  return words.contains(lower_case(word));
}

bool is_numeric(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return is_digit(c) || c == '.'; }) &&
         std::ranges::any_of(text, is_digit);
}

bool is_common_component(std::string_view component) {
  static const Words names(kCommonNames.begin(), kCommonNames.end());
  // A version has dots; a number alone may be that of a person.
  const bool is_version = is_numeric(component) && component.contains('.') && component.size() < 10;
  const bool is_drive = component.size() == 2 && is_letter(component[0]) && component[1] == ':';
  return names.contains(component) || is_version || is_drive || is_python_name(component) ||
         is_cgroup_file(component) || component.starts_with('$');
}

bool is_known_package(std::string_view name) {
  static const Words packages = {
      // many projects'
      "torch", "torchvision", "torchaudio", "torchdata", "torchtext", "torchmetrics", "torchrun",
      "functorch", "numpy", "cv2", "PIL", "pillow", "scipy", "pandas", "sklearn", "skimage",
      "matplotlib", "lightning", "lightning_fabric", "pytorch_lightning", "transformers",
      "datasets", "tokenizers", "accelerate", "safetensors", "huggingface_hub", "polars", "pyarrow",
      "h5py", "zarr", "lmdb", "webdataset", "albumentations", "imgaug", "kornia", "timm",
      "deepspeed", "horovod", "mpi4py", "ray", "dask", "distributed", "joblib", "loky", "numba",
      "llvmlite", "cupy", "jax", "jaxlib", "tensorflow", "keras", "triton", "nvidia", "faiss",
      "tqdm", "yaml", "requests", "urllib3", "boto3", "botocore", "s3fs", "fsspec", "gcsfs",
      "aiohttp", "grpc", "psutil", "setproctitle", "wandb", "tensorboard", "tensorboardX", "mlflow",
      "hydra", "omegaconf", "ignite", "monai", "nibabel", "pydicom", "decord", "av", "soundfile",
      "librosa", "spacy", "nltk", "sentencepiece", "xformers", "flash_attn", "bitsandbytes", "apex",
      "ffcv", "streaming", "dgl", "torch_geometric", "networkx", "sympy", "pytest", "_pytest",
      "pluggy", "pip", "setuptools", "pkg_resources", "wheel", "packaging", "cloudpickle", "dill",
      "zmq", "uvloop", "IPython", "ipykernel", "jupyter_client", "traitlets", "tornado", "opencv",
      "opencv-python", "mkl", "einops", "filelock", "jinja2", "markupsafe", "pydantic",
      // the standard library's
      "abc", "argparse", "array", "asyncio", "atexit", "base64", "bdb", "bisect", "builtins", "bz2",
      "cProfile", "codecs", "collections", "concurrent", "configparser", "contextlib", "copy",
      "copyreg", "csv", "ctypes", "dataclasses", "datetime", "decimal", "email", "encodings",
      "enum", "errno", "faulthandler", "fcntl", "fractions", "functools", "gc", "getpass", "glob",
      "gzip", "hashlib", "heapq", "html", "http", "importlib", "inspect", "io", "ipaddress",
      "itertools", "json", "linecache", "locale", "logging", "lzma", "math", "mmap",
      "multiprocessing", "numbers", "operator", "os", "pathlib", "pdb", "pickle", "pkgutil",
      "platform", "posixpath", "pprint", "profile", "queue", "random", "re", "resource", "runpy",
      "sched", "select", "selectors", "shutil", "signal", "site", "socket", "socketserver",
      "sqlite3", "ssl", "stat", "statistics", "string", "struct", "subprocess", "symtable", "sys",
      "sysconfig", "tarfile", "tempfile", "threading", "time", "timeit", "token", "trace",
      "traceback", "tracemalloc", "types", "typing", "unittest", "urllib", "uuid", "venv",
      "warnings", "wave", "weakref", "xml", "zipfile", "zlib", "zoneinfo", "_thread", "_bootstrap",
      "_multiprocessing", "_posixsubprocess", "_socket", "_utils", "sitecustomize", "usercustomize",
      "dlprobe"};
  if (name.ends_with(".libs")) name.remove_suffix(std::string_view(".libs").size());
  const size_t dash = name.find('-');
  const bool has_version = dash != std::string_view::npos && dash + 1 < name.size();
  if (has_version && is_digit(name[dash + 1])) name = name.substr(0, dash);
  return packages.contains(name);
}

bool is_of_known_source(std::string_view relative_path) {
  constexpr std::array<std::string_view, 8> kSources = {
      "torch/", "torchvision/",        "torchaudio/", "multiprocessing/",
      "numpy/", "concurrent/futures/", "PIL/",        "cv2/"};
  return starts_with_one_of(relative_path, kSources);
}

bool is_known_file(std::string_view name) {
  static const Words files = {"dataloader.py",
                              "worker.py",
                              "fetch.py",
                              "collate.py",
                              "pin_memory.py",
                              "sampler.py",
                              "queues.py",
                              "connection.py",
                              "synchronize.py",
                              "context.py",
                              "process.py",
                              "popen_fork.py",
                              "popen_spawn_posix.py",
                              "popen_forkserver.py",
                              "spawn.py",
                              "forkserver.py",
                              "reduction.py",
                              "reductions.py",
                              "signal_handling.py",
                              "resource_tracker.py",
                              "pool.py",
                              "managers.py",
                              "util.py",
                              "shared_memory.py",
                              "environment.pickle"};
  constexpr auto kLibraries = std::to_array<std::string_view>(
      {"libc.",       "libc-",       "libm.",       "libdl.",        "librt.",       "libpthread",
       "libutil.",    "libresolv",   "libnss",      "ld-linux",      "ld-musl",      "libc++",
       "libstdc++",   "libgcc_s",    "libgomp",     "libiomp",       "libomp",       "libtorch",
       "libc10",      "libshm",      "libcaffe2",   "libopencv",     "libcuda",      "libcudnn",
       "libcublas",   "libcufft",    "libcurand",   "libcusolver",   "libcusparse",  "libcupti",
       "libcurl",     "libnvidia",   "libnvrtc",    "libnvToolsExt", "libnvJitLink", "libnvjpeg",
       "libnccl",     "libmkl",      "libopenblas", "libblas",       "liblapack",    "libscipy",
       "libgfortran", "libquadmath", "libpython3",  "libjpeg",       "libpng",       "libturbojpeg",
       "libtiff",     "libwebp",     "libz.",       "libzstd",       "liblzma",      "libbz2",
       "libtbb",      "libarrow",    "libparquet",  "libprotobuf",   "libgrpc",      "libglib",
       "libhdf5",     "libffi",      "libssl",      "libcrypto",     "libuv",        "libevent",
       "libmpi",      "libucp",      "libucs",      "libuct",        "libucm",       "libibverbs",
       "librdma",     "libhwloc",    "libpmix",     "libnuma",       "libjemalloc"});
  const std::string_view stem = name.substr(0, name.size() - known_extension(name).size());
  const std::string_view module = name.substr(0, name.find(".cpython-"));
  return files.contains(name) || starts_with_one_of(name, kLibraries) || is_known_package(stem) ||
         is_known_package(module) || is_common_component(name);
}

bool is_known_comm(std::string_view comm) {
  static const Words comms = {"sh",     "bash",       "dlprobe",  "systemd",    "srun",
                              "slurmd", "slurmstepd", "torchrun", "dockerd",    "containerd",
                              "mpirun", "orted",      "prterun",  "MainThread", "readlink",
                              "sleep",  "cat",        "env",      "timeout"};
  constexpr auto kBeginnings = std::to_array<std::string_view>(
      {"pt_data",    "pt_main", "pt_autograd", "pt_nccl",    "pt_elastic",
       "torch_shm",  "Thread-", "QueueFeeder", "ThreadPool", "Dummy-",
       "cuda-",      "nvidia-", "NCCL",        "jemalloc",   "grpc",
       "tokio",      "polars",  "rayon",       "iou-",       "multiproc",
       "resource_t", "asyncio", "jupyter",     "ipykernel",  "dlprobe-"});
  if (comms.contains(comm) || is_python_name(comm)) return true;
  return starts_with_one_of(comm, kBeginnings) || is_numeric(comm);
}

std::string_view known_extension(std::string_view name) {
  static const Words extensions = {
      "py",    "pyc",     "pyi",   "ipynb",    "so",          "a",      "o",    "c",
      "cc",    "cpp",     "cxx",   "h",        "hpp",         "cu",     "cuh",  "rs",
      "js",    "ts",      "java",  "jar",      "pl",          "rb",     "sh",   "bash",
      "zsh",   "json",    "jsonl", "toml",     "yaml",        "yml",    "ini",  "cfg",
      "conf",  "env",     "txt",   "md",       "rst",         "csv",    "tsv",  "xml",
      "html",  "log",     "out",   "err",      "dat",         "data",   "bin",  "idx",
      "db",    "sqlite",  "mdb",   "lmdb",     "h5",          "hdf5",   "npy",  "npz",
      "pt",    "pth",     "ckpt",  "onnx",     "pkl",         "pickle", "mat",  "parquet",
      "arrow", "feather", "zarr",  "tfrecord", "safetensors", "tar",    "gz",   "tgz",
      "bz2",   "xz",      "zst",   "zip",      "whl",         "png",    "jpg",  "jpeg",
      "JPEG",  "JPG",     "PNG",   "webp",     "bmp",         "tif",    "tiff", "gif",
      "svg",   "mp4",     "avi",   "mkv",      "wav",         "flac",   "mp3",  "nii",
      "dcm",   "pdf",     "sock",  "lock",     "pid",         "tmp",    "bak",  "scope",
      "slice", "service", "dlrec", "prom",     "exe",         "dll",    "pem",  "key",
      "crt",   "sif",     "sqsh",  "img",      "iso",         "core",   "deb"};
  size_t begin = name.size();
  // Those of one file: ".tar.gz", ".so.1.0".
  while (begin > 0) {
    const size_t dot = name.rfind('.', begin - 1);
    if (dot == std::string_view::npos || dot == 0) break;
    const std::string_view one = name.substr(dot + 1, begin - dot - 1);
    const bool is_so_number = is_numeric(one) && name.substr(0, dot).contains(".so");
    if (!extensions.contains(one) && !is_so_number) break;
    begin = dot;
  }
  return name.substr(begin);
}

bool has_host_ending(std::string_view name) {
  static const Words endings = {
      "com",      "org",     "net",     "edu",    "gov",     "mil",         "int",     "info",
      "biz",      "io",      "ai",      "dev",    "app",     "cloud",       "eu",      "internal",
      "local",    "lan",     "corp",    "home",   "intra",   "localdomain", "example", "invalid",
      "intranet", "private", "arpa",    "svc",    "cluster", "consul",      "tech",    "xyz",
      "science",  "systems", "network", "online", "ac",      "ae",          "ar",      "au",
      "az",       "ba",      "bd",      "bg",     "br",      "by",          "ca",      "ch",
      "cl",       "cn",      "co",      "cr",     "cy",      "cz",          "de",      "dk",
      "ee",       "eg",      "es",      "fi",     "fr",      "gr",          "hk",      "hr",
      "hu",       "ie",      "il",      "ir",     "jp",      "ke",          "kr",      "kz",
      "lk",       "lt",      "lu",      "lv",     "ma",      "mx",          "nl",      "nz",
      "pe",       "ph",      "pk",      "pt",     "qa",      "ro",          "ru",      "sa",
      "se",       "sg",      "si",      "sk",     "th",      "tn",          "tr",      "tw",
      "ua",       "uk",      "uy",      "uz",     "ve",      "vn",          "za"};
  // As often the name of an attribute or a method: only of three labels.
  static const Words words_too = {"id", "is", "to", "at", "in",   "me", "it",   "no",   "do",
                                  "as", "my", "be", "us", "name", "pl", "site", "test", "rs"};
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string ending = lower_case(name.substr(dot + 1));
  if (endings.contains(ending)) return true;
  return words_too.contains(ending) && name.substr(0, dot).contains('.');
}

bool is_public_document(std::string_view address) {
  constexpr std::array<std::string_view, 22> kDocuments = {
      "github.com/pytorch",     "github.com/python", "github.com/opencv", "github.com/numpy",
      "github.com/huggingface", "pytorch.org",       "docs.pytorch.org",  "discuss.pytorch.org",
      "docs.python.org",        "bugs.python.org",   "peps.python.org",   "docs.docker.com",
      "kubernetes.io",          "man7.org",          "docs.kernel.org",   "www.kernel.org",
      "slurm.schedmd.com",      "docs.nvidia.com",   "numpy.org",         "docs.opencv.org",
      "json-schema.org",        "nvcr.io/nvidia"};
  if (address.contains('?') || address.contains('@')) return false;
  return std::ranges::any_of(kDocuments, [address](std::string_view each) {
    const std::string_view rest = address.substr(std::min(each.size(), address.size()));
    return address.starts_with(each) &&
           (rest.empty() || rest.front() == '/' || rest.front() == '#');
  });
}

bool is_every_host(std::string_view host) {
  static const Words hosts = {"localhost",
                              "localhost.localdomain",
                              "ip6-localhost",
                              "0.0.0.0",
                              "127.0.0.1",
                              "127.0.1.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "localdomain"};
  return hosts.contains(host);
}

bool is_every_user(std::string_view user) {
  static const Words users = {"root", "git", "nobody", "***"};
  return users.contains(user);
}

bool is_plain_value(std::string_view value) {
  static const Words values = {"auto",  "none",  "None", "null", "all", "any",  "true",    "True",
                               "false", "False", "yes",  "no",   "on",  "off",  "default", "static",
                               "c10d",  "etcd",  "env",  "host", "PID", "NAME", "***",     "..."};
  return values.contains(value) || is_numeric(value) || value.empty();
}

bool counts_something(std::string_view word) {
  static const Words counters = {"cuda", "cpu",   "gpu",   "mps",    "xpu",    "pid",
                                 "tid",  "errno", "step",  "epoch",  "rank",   "port",
                                 "line", "code",  "batch", "iter",   "loss",   "fd",
                                 "uid",  "gid",   "exit",  "status", "worker", "v1"};
  return counters.contains(lower_case(word)) || is_own_word(word) || is_python_name(word);
}

size_t components_of_system(std::string_view path) {
  constexpr std::array<std::string_view, 9> kWhole = {
      "/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/usr/", "/proc/", "/sys/", "/boot/"};
  const bool is_local = path.starts_with("/usr/local/") || path.starts_with("/sys/fs/cgroup/");
  if (!is_local && starts_with_one_of(path, kWhole)) return std::string_view::npos;
  if (path.starts_with("/dev/")) return 2;
  return 0;
}

}  // namespace dlprobe
