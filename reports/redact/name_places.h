#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace dlprobe {

/// What stands at a place of a text.
enum class PlaceKind {
  kHost,
  kHosts,  ///< "n[1-4],gpu7:2"
  kUser,
  kPath,     ///< with '/' or '\'
  kFile,     ///< a name without a folder
  kAddress,  ///< IPv4, IPv6, MAC
  kBucket,
  kName,  ///< of a project, a person, a company: what an option says so of
  kSecret,
};

struct NamePlace {
  PlaceKind kind;
  size_t begin;
  size_t length;
};

/// What an option says of the value that follows it.
enum class Announced { kNothing, kHost, kUser, kName, kModule, kSecret };

struct NameScan {
  std::vector<NamePlace> places;         ///< in order, none within another
  Announced next = Announced::kNothing;  ///< of the next argument, where the text is one
};

/// Where a text may name a machine, a person or a place. What is the same everywhere
/// (public_names.h) is no place; where the shape leaves doubt, there is one.
std::vector<NamePlace> find_names(std::string_view text);

/// The same of one argument of a command line, by what the one before it announced.
NameScan find_names_of_argument(std::string_view argument, Announced announced);

}  // namespace dlprobe
