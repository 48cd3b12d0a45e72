#include "app/progress.hpp"

namespace rehearse::cli {

void Progress::show(const std::string& text) {
  if (!enabled_) return;
  out_ << "\r\x1b[2K" << text << std::flush;
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  out_ << "\r\x1b[2K" << std::flush;
  shown_ = false;
}

}  // namespace rehearse::cli
