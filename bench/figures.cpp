#include "bench/figures.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace rehearse::bench {

double microseconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

double quantile(Samples samples, double part) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<std::size_t>(part * static_cast<double>(samples.size() - 1))];
}

nlohmann::json json_of(const Figure& figure) {
  nlohmann::json row{{"name", figure.name},
                     {"unit", figure.unit},
                     {"median", median(figure.ours)},
                     {"min", quantile(figure.ours, 0)},
                     {"max", quantile(figure.ours, 1)}};
  if (figure.versus.empty()) return row;
  Samples ratios;
  for (std::size_t i = 0; i < figure.ours.size(); ++i) {
    ratios.push_back(figure.ours[i] / figure.theirs[i]);
  }
  row["versus"] = figure.versus;
  row[figure.versus + "_median"] = median(figure.theirs);
  row["ratio"] = median(ratios);
  row["spread"] = {quantile(ratios, 0), quantile(ratios, 1)};
  return row;
}

std::string table_of(const nlohmann::json& rows) {
  std::string table;
  for (const auto& row : rows) {
    table += fmt::format("{:<28} {:>11.1f} {} ({:.1f}..{:.1f})", row["name"].get<std::string>(),
                         row["median"].get<double>(), row["unit"].get<std::string>(),
                         row["min"].get<double>(), row["max"].get<double>());
    if (row.contains("versus")) {
      const auto versus = row["versus"].get<std::string>();
      table += fmt::format("  {} {:.1f}  ratio {:.2f} ({:.2f}..{:.2f})", versus,
                           row[versus + "_median"].get<double>(), row["ratio"].get<double>(),
                           row["spread"][0].get<double>(), row["spread"][1].get<double>());
    }
    table += "\n";
  }
  return table;
}

int publish(const nlohmann::json& rows, const std::string& file) {
  double load = 0;
  if (::getloadavg(&load, 1) != 1) load = -1;
  fmt::print("{}load over the last minute: {:.2f}\n", table_of(rows), load);
  if (file.empty()) return 0;
  std::ofstream out(file);
  out << nlohmann::json{{"load_1min", load}, {"rows", rows}}.dump(2) << "\n";
  out.close();
  if (out) return 0;
  fmt::print(stderr, "cannot write '{}'\n", file);
  return 3;
}

}  // namespace rehearse::bench
