#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/real/descriptor.hpp"
#include "runtime/world/event.hpp"

namespace rehearse::real {

/// The events of one worker in a file, in order, for the report after the run. What is appended is
/// in the file after `flush`, also if the process is killed then.
class EventFile {
 public:
  /// No path: keeps nothing.
  explicit EventFile(const std::string& path);
  ~EventFile() { flush(); }

  void append(const StampedEvent& event, std::string_view phase);
  void flush();

 private:
  Descriptor file_;
  Bytes buffer_;
  std::vector<bool> named_;  // phases whose name is in the file
};

struct EventFileContent {
  std::vector<StampedEvent> events;
  std::vector<std::string> phases;  ///< names behind `StampedEvent::phase`
};
/// Up to the first thing that cannot be read: a killed worker's file may end in the middle.
EventFileContent read_event_file(const std::string& path);

}  // namespace rehearse::real
