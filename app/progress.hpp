#pragma once

#include <ostream>
#include <string>

namespace rehearse::cli {

/// One line on a terminal that is written over and over, and gone at the end.
class Progress {
 public:
  Progress(std::ostream& out, bool enabled) : out_(out), enabled_(enabled) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& text);
  void clear();

 private:
  std::ostream& out_;
  bool enabled_;
  bool shown_ = false;
};

}  // namespace rehearse::cli
