#include "reports/known_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/suggest.h"

namespace dlprobe {
namespace {

/// What the schema says of one place, as far as it lists values there or below.
struct Place {
  std::vector<Json> allowed;  ///< empty: any
  std::map<std::string, const Place*, std::less<>> members;
  const Place* others = nullptr;  ///< of members that have no place of their own
  const Place* items = nullptr;

  bool says_something() const {
    return !allowed.empty() || !members.empty() || others != nullptr || items != nullptr;
  }
};

/// The schema, without all that lists no values: a report of 50 MB has a million places.
class Places {
 public:
  explicit Places(const Json& schema) : schema_(schema) {}

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the schema, which is our own
  const Place* of(const Json& schema) {
    if (!schema.is_object()) return nullptr;
    if (const auto reference = schema.find("$ref"); reference != schema.end())
      return named(reference->get<std::string>());
    Place place;
    if (const auto values = schema.find("enum"); values != schema.end())
      place.allowed = values->get<std::vector<Json>>();
    if (const auto value = schema.find("const"); value != schema.end() && value->is_string())
      place.allowed = {*value};
    if (const auto members = schema.find("properties"); members != schema.end()) {
      for (const auto& [key, member] : members->items()) {
        if (const Place* found = of(member)) place.members.emplace(key, found);
      }
    }
    if (const auto others = schema.find("additionalProperties"); others != schema.end())
      place.others = of(*others);
    if (const auto items = schema.find("items"); items != schema.end()) place.items = of(*items);
    if (!place.says_something()) return nullptr;
    return &places_.emplace_back(std::move(place));
  }

  // "#/$defs/finding".
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the schema
  const Place* named(const std::string& reference) {
    if (const auto known = by_name_.find(reference); known != by_name_.end()) return known->second;
    const Place* place = of(schema_.at(Json::json_pointer(reference.substr(1))));
    by_name_.emplace(reference, place);
    return place;
  }

 private:
  const Json& schema_;
  std::deque<Place> places_;
  std::map<std::string, const Place*> by_name_;
};

std::string shown(const Json& value) {
  constexpr size_t kMost = 60;
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

/// Walks a report and the places of the schema together.
class Walk {
 public:
  // NOLINTNEXTLINE(misc-no-recursion): as deep as parse_report() lets a report be
  Status check(const Json& value, const Place& place) {
    if (!place.allowed.empty() && std::ranges::count(place.allowed, value) == 0)
      return refuse(value, place);
    if (value.is_array() && place.items != nullptr) {
      for (size_t i = 0; i < value.size(); ++i)
        DLP_CHECK(step(std::to_string(i), value[i], *place.items));
    }
    if (!value.is_object()) return {};
    for (const auto& [key, member] : value.items()) {
      const auto known = place.members.find(key);
      const Place* next = known == place.members.end() ? place.others : known->second;
      if (next != nullptr) DLP_CHECK(step(key, member, *next));
    }
    return {};
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): see check()
  Status step(const std::string& key, const Json& value, const Place& place) {
    path_.push_back(key);
    DLP_CHECK(check(value, place));
    path_.pop_back();
    return {};
  }

  Status refuse(const Json& value, const Place& place) const {
    Json::json_pointer pointer;
    for (const std::string& key : path_)
      pointer.push_back(key);
    std::vector<std::string> names;
    std::string all;
    for (const Json& each : place.allowed) {
      names.push_back(each.is_string() ? each.get<std::string>() : each.dump());
      all += (all.empty() ? "" : ", ") + names.back();
    }
    const std::string typed = value.is_string() ? value.get<std::string>() : "";
    return failure(ErrorCode::kMalformed,
                   fmt::format("{} of the report is {}{}: {} {}", pointer.to_string(), shown(value),
                               did_you_mean(typed, names),
                               names.size() == 1 ? "it has to be" : "it has to be one of", all));
  }

  std::vector<std::string> path_;
};

/// Read once: a merge checks thousands of reports.
struct Known {
  Json schema = Json::parse(report_schema());
  Places places{schema};
  const Place* report = places.of(schema);
  const Place* cluster = places.named("#/$defs/cluster");
};

}  // namespace

Status check_known_values(const Json& report) {
  static const Known known;
  const bool is_cluster = report.value("kind", "") == kClusterReportKind;
  const Place* place = is_cluster ? known.cluster : known.report;
  return place == nullptr ? Status() : Walk().check(report, *place);
}

}  // namespace dlprobe
