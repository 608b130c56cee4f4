#include "lib/base/host_list.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lib/base/parse.h"

namespace dlprobe {
namespace {

// A list may come from a hostile report: a short one may stand for gigabytes of names.
constexpr size_t kMostHosts = 100'000;
constexpr size_t kLongestName = 255;  // of a name in DNS (RFC 1035)
constexpr int kMostBrackets = 8;
constexpr size_t kMostDigits = 9;

std::unexpected<Error> bad_list(std::string_view list, std::string_view why) {
  return failure(ErrorCode::kInvalid, "host list '" + std::string(list) + "': " + std::string(why));
}

std::string padded(uint64_t number, size_t digits) {
  const std::string text = std::to_string(number);
  return text.size() < digits ? std::string(digits - text.size(), '0') + text : text;
}

/// "01-03,7" of n[01-03,7].
Status expand_range(std::string_view list, std::string_view range, const std::string& before,
                    std::vector<std::string>& hosts) {
  const size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const auto from = parse_int<uint64_t>(first);
  const auto to = parse_int<uint64_t>(last);
  if (!from || !to || first.size() > kMostDigits || last.size() > kMostDigits) {
    return bad_list(list, "'" + std::string(range) + "' is no range of numbers");
  }
  if (*from > *to) return bad_list(list, "'" + std::string(range) + "' runs backwards");
  if (*to - *from >= kMostHosts || hosts.size() + (*to - *from) >= kMostHosts)
    return bad_list(list, "more than 100,000 hosts");
  for (uint64_t number = *from; number <= *to; ++number)
    hosts.push_back(before + padded(number, first.size()));
  return {};
}

/// One host, or one with brackets.
Status expand_one(std::string_view list, std::string_view item, std::vector<std::string>& hosts) {
  const size_t open = item.find('[');
  if (open == std::string_view::npos) {
    if (item.contains(']')) return bad_list(list, "a ']' without a '['");
    if (item.size() > kLongestName) return bad_list(list, "a name of more than 255 characters");
    hosts.emplace_back(item);
    return {};
  }
  if (open > kLongestName) return bad_list(list, "a name of more than 255 characters");
  if (std::ranges::count(item, '[') > kMostBrackets)
    return bad_list(list, "more than 8 brackets in a name");
  const size_t close = item.find(']', open);
  if (close == std::string_view::npos) return bad_list(list, "a '[' that does not close");
  const std::string before(item.substr(0, open));
  const std::string_view behind = item.substr(close + 1);
  std::string_view ranges = item.substr(open + 1, close - open - 1);
  std::vector<std::string> found;
  while (true) {
    const size_t comma = ranges.find(',');
    DLP_CHECK(expand_range(list, ranges.substr(0, comma), before, found));
    if (comma == std::string_view::npos) break;
    ranges.remove_prefix(comma + 1);
  }
  // "rack[1-2]n[1-4]": what stands behind may have brackets of its own.
  for (const std::string& host : found) {
    if (hosts.size() >= kMostHosts) return bad_list(list, "more than 100,000 hosts");
    DLP_CHECK(expand_one(list, host + std::string(behind), hosts));
  }
  return {};
}

struct Name {
  std::string stem;
  std::string digits;  ///< at its end; empty: none
};

Name split(const std::string& host) {
  size_t at = host.size();
  while (at > 0 && host[at - 1] >= '0' && host[at - 1] <= '9' && host.size() - at < kMostDigits)
    --at;
  return {.stem = host.substr(0, at), .digits = host.substr(at)};
}

/// "1-3,7" of the numbers of one stem.
std::string ranges_of(const std::set<std::pair<uint64_t, size_t>>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    auto last = at;
    for (auto next = std::next(at); next != numbers.end(); last = next++) {
      if (next->first != last->first + 1 || next->second != last->second) break;
    }
    if (!text.empty()) text += ',';
    text += padded(at->first, at->second);
    if (last != at) text += '-' + padded(last->first, last->second);
    at = std::next(last);
  }
  return text;
}

}  // namespace

Expected<std::vector<std::string>> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    const bool is_between = c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!is_between || (depth > 0 && i < list.size())) continue;
    const std::string_view item = list.substr(begin, i - begin);
    begin = i + 1;
    if (!item.empty()) DLP_CHECK(expand_one(list, item, hosts));
  }
  return hosts;
}

std::string fold_hosts(const std::vector<std::string>& hosts) {
  std::map<std::string, std::set<std::pair<uint64_t, size_t>>> numbered;
  std::set<std::string> plain;
  for (const std::string& host : hosts) {
    const Name name = split(host);
    const auto number = parse_int<uint64_t>(name.digits);
    if (!number) {
      plain.insert(host);
    } else {
      const bool is_padded = name.digits.size() > 1 && name.digits.front() == '0';
      numbered[name.stem].emplace(*number, is_padded ? name.digits.size() : 0);
    }
  }
  std::string text;
  const auto add = [&text](const std::string& item) {
    if (!text.empty()) text += ',';
    text += item;
  };
  for (const std::string& host : plain)
    add(host);
  for (const auto& [stem, numbers] : numbered) {
    std::string ranges = ranges_of(numbers);
    if (numbers.size() > 1) ranges.insert(0, "[").append("]");
    add(stem + ranges);
  }
  return text;
}

}  // namespace dlprobe
