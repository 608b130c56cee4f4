#pragma once

#include <string_view>

namespace dlprobe {

/// What names nobody, so that a redacted report may keep it. All of these are lists of what is the
/// same everywhere; what is on none of them is taken for a name.

/// A word of dlprobe's own: of its schema, its findings and their pages. Letters only, in capitals
/// or not.
bool is_own_word(std::string_view word);

/// The name of a folder or file that is a custom ("bin", ".venv", "data", "python3.11", "train.py",
/// "3.11.7"), not a choice.
bool is_common_component(std::string_view component);

/// A Python package that anybody may have, of the standard library or of many projects; also with
/// a version or ".libs" behind.
bool is_known_package(std::string_view name);

/// "torch/utils/data/dataloader.py".
bool is_of_known_source(std::string_view relative_path);

/// The file of a library that anybody may have: "libc.so.6", "libtorch_cpu.so", "dataloader.py".
bool is_known_file(std::string_view name);

/// What a program or a thread of a program that anybody may have calls itself.
bool is_known_comm(std::string_view comm);

/// ".py", ".tar.gz", ".so.6": where it is one that says what a file is, and no part of its name.
std::string_view known_extension(std::string_view name);

/// "ci.corp.example.com": names that end as those of hosts do.
bool has_host_ending(std::string_view name);

/// What stands behind "https://" of a public document that error texts refer to.
bool is_public_document(std::string_view address);

/// "localhost", "127.0.0.1", "::1", "0.0.0.0": the same everywhere.
bool is_every_host(std::string_view host);

/// "root", "git", "nobody".
bool is_every_user(std::string_view user);

/// "auto", "none", "true": what options take instead of a name.
bool is_plain_value(std::string_view value);

/// "cuda:10", "pid:77": what stands before a number without being a host.
bool counts_something(std::string_view word);

/// Digits alone, dots between them or not: "17", "2.13.0".
bool is_numeric(std::string_view text);

/// How many leading components of an absolute path are the system's: "/usr/lib/x" all of them
/// (npos), "/dev/shm/x" the first two, "/srv/x" the first one, "/x" none.
size_t components_of_system(std::string_view path);

}  // namespace dlprobe
