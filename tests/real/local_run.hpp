#pragma once

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/real/file_disk.hpp"
#include "runtime/real/launcher.hpp"
#include "runtime/real/run_directory.hpp"

namespace rehearse::real {

/// A job with a run directory of its own, which is gone afterwards.
class LocalRun {
 public:
  explicit LocalRun(int workers, Transport transport = Transport::automatic) {
    options.run_directory = directory_.path();
    options.workers = workers;
    options.transport = transport;
    options.time_limit = std::chrono::seconds(30);
    options.limits.stop_grace = std::chrono::milliseconds(500);
  }

  RunOutcome run(Body body) {
    options.body = std::move(body);
    return run_local_job(options);
  }
  RunOutcome run() { return run_local_job(options); }

  /// What `worker` has put on its disk; empty if nothing.
  std::string left(const std::string& worker, const std::string& object) const {
    const std::string directory = disk_path(options.run_directory, worker);
    std::ifstream file(directory + "/" + file_name(object), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  LocalJobOptions options;

 private:
  RunDirectory directory_;
};

inline Message text(std::string_view what) { return {MessageKind::user, bytes_of(what), {}}; }

/// "ping", "lost", or the code of what failed.
inline std::string hear(Endpoint& endpoint, Time deadline) {
  const auto envelope = endpoint.receive(deadline);
  if (!envelope.ok()) return std::string(name(envelope.code()));
  if (const auto* received = std::get_if<Received>(&envelope.value().what)) {
    return std::string(text_of(received->message.header));
  }
  return std::holds_alternative<PeerLost>(envelope.value().what) ? "lost" : "other news";
}

inline Address find(World& world, std::string_view name) {
  return world.net.find(name, world.clock.now() + std::chrono::seconds(10)).or_throw();
}

inline Time late(World& world) { return world.clock.now() + std::chrono::seconds(20); }

}  // namespace rehearse::real
