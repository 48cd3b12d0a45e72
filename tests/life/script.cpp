#include "tests/life/script.hpp"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <array>
#include <ostream>

namespace rehearse::life {
namespace {

constexpr std::array<std::string_view, kVerbs> kNames = {
    "open",   "close", "leaf", "call", "nested",   "async", "wait",
    "remote", "fetch", "use",  "drop", "backward", "read",  "step"};

rc::Gen<Line> a_line() {
  // Contexts stay open for a while, and most lines have something to work on.
  const auto verb = rc::gen::weightedElement<Verb>({{4, Verb::open},
                                                    {2, Verb::close},
                                                    {4, Verb::leaf},
                                                    {5, Verb::call},
                                                    {3, Verb::nested},
                                                    {4, Verb::async},
                                                    {3, Verb::wait},
                                                    {4, Verb::remote},
                                                    {4, Verb::fetch},
                                                    {4, Verb::use},
                                                    {2, Verb::drop},
                                                    {5, Verb::backward},
                                                    {4, Verb::read},
                                                    {2, Verb::step}});
  const auto number = rc::gen::inRange<std::uint32_t>(0, 6);
  return rc::gen::construct<Line>(verb, number, number);
}

rc::Gen<std::optional<Death>> a_death(bool deaths, int lines_max) {
  return rc::gen::exec([deaths, lines_max]() -> std::optional<Death> {
    if (!deaths || *rc::gen::inRange(0, 3) == 0) return std::nullopt;
    Death death;
    death.victim = *rc::gen::inRange(1, kWorkers);
    if (*rc::gen::arbitrary<bool>()) {
      death.line = *rc::gen::inRange<std::size_t>(0, static_cast<std::size_t>(lines_max));
    } else {
      death.event = *rc::gen::element(EventKind::sent, EventKind::received);
      death.nth = *rc::gen::inRange<std::uint64_t>(1, 60);
    }
    return death;
  });
}

}  // namespace

std::string_view name(Verb verb) { return kNames[static_cast<std::size_t>(verb)]; }

void showValue(const Script& script, std::ostream& out) {
  constexpr std::array<std::string_view, 3> kWeathers = {"calm", "jitter", "reorder"};
  out << fmt::format("seed {}, {}", script.seed,
                     kWeathers[static_cast<std::size_t>(script.weather)]);
  if (script.death && script.death->line) {
    out << fmt::format(", w{} dies before line {}", script.death->victim, *script.death->line);
  } else if (script.death) {
    out << fmt::format(", w{} dies at its {} no. {}", script.death->victim,
                       rehearse::name(script.death->event), script.death->nth);
  }
  for (std::size_t i = 0; i < script.lines.size(); ++i) {
    const Line& line = script.lines[i];
    out << fmt::format("\n  {}: {} {} {}", i, name(line.verb), line.a, line.b);
  }
}

rc::Gen<Script> scripts(int lines_max, bool deaths) {
  return rc::gen::construct<Script>(
      rc::gen::resize(lines_max, rc::gen::container<std::vector<Line>>(a_line())),
      a_death(deaths, lines_max),
      rc::gen::element(Weather::calm, Weather::jitter, Weather::reorder),
      rc::gen::inRange<std::uint64_t>(1, 1000));
}

}  // namespace rehearse::life
