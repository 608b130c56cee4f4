#include "tests/unit/record/filled.h"

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "lib/base/fields.h"

namespace dlprobe::testing {
namespace {

constexpr const char* kHostile = "\xff\xfe\x1b[31m \xe2\x80\x8f x";

// Gives each field a value of its own, other than the default.
class Filler {
 public:
  template <Listed T>
  void operator()(T& object) {
    for_each_field<T>([&](const auto& field) { (*this)(object.*field.member); });
  }
  void operator()(bool& value) { value = !value; }
  void operator()(char& value) { value = 'D'; }
  void operator()(double& value) { value = 0.125 * ++count_; }
  void operator()(std::string& value) { value = kHostile + std::to_string(++count_); }
  void operator()(Message& value) {
    std::string name;
    (*this)(name);
    value = say("dlprobe says {} and {}", as_name(name), as_text(kHostile));
  }
  void operator()(uint64_t& value) { value = std::numeric_limits<uint64_t>::max() - ++count_; }
  template <std::integral T>
  void operator()(T& value) {
    value = static_cast<T>(++count_);
  }
  template <NamedEnum T>
  void operator()(T& value) {
    value = value == kValues<T>.back() ? kValues<T>.front() : kValues<T>.back();
  }
  void operator()(ProcessKey& key) {
    (*this)(key.pid);
    (*this)(key.start_ticks);
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    (*this)(value.emplace());
  }
  template <class T>
  void operator()(Observed<T>& value) {
    value = T{};
    (*this)(*value);
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    values.assign(2, T{});
    (*this)(values.front());
  }
  template <class T, size_t N>
  void operator()(std::array<T, N>& values) {
    for (T& value : values)
      (*this)(value);
  }

 private:
  uint32_t count_ = 0;
};

// Makes every observation fail, and has one of each thing that holds some.
class Spoiler {
 public:
  template <class T>
  void operator()(T& value) {
    if constexpr (Listed<T>) {
      for_each_field<T>([&](const auto& field) { (*this)(value.*field.member); });
    }
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    if constexpr (!std::same_as<T, Attempt>) (*this)(value.emplace());
  }
  template <class T>
  void operator()(Observed<T>& value) {
    value = os_failure(kHostile, ++errno_);
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    (*this)(values.emplace_back());
  }

 private:
  int errno_ = 0;
};

template <class T>
void add_all(std::vector<Record>& records) {
  T filled{};
  Filler{}(filled);
  T spoiled{};
  Spoiler{}(spoiled);
  records.insert(records.end(),
                 {Record(std::move(filled)), Record(T{}), Record(std::move(spoiled))});
}

template <class... T>
void add_kinds(const std::variant<T...>* /*types*/, std::vector<Record>& records) {
  static_assert(std::same_as<std::variant_alternative_t<0, Record>, RunBegin>);
  const auto add_unless_end = [&]<class Each>(const Each* /*type*/) {
    if constexpr (!std::same_as<Each, RunEnd>) add_all<Each>(records);
  };
  (add_unless_end(static_cast<const T*>(nullptr)), ...);
}

}  // namespace

RecordingHeader filled_header() {
  RecordingHeader header;
  Filler{}(header);
  return header;
}

std::vector<Record> filled_records() {
  std::vector<Record> records;
  add_kinds(static_cast<const Record*>(nullptr), records);
  add_all<RunEnd>(records);
  return records;
}

}  // namespace dlprobe::testing
