#include "harness/problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace rehearse::harness {

std::string Place::text() const {
  const std::string name = source ? *source : std::string("scenario");
  return line == 0 ? name : fmt::format("{}:{}:{}", name, line, column);
}

std::string Problem::text() const { return place.text() + ": " + message; }

void Problems::add(const Place& place, std::string message) {
  problems_.push_back({place, std::move(message)});
}

std::vector<Problem> Problems::sorted() const {
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) {
    return std::tuple(a.place.line, a.place.column) < std::tuple(b.place.line, b.place.column);
  });
  return sorted;
}

}  // namespace rehearse::harness
