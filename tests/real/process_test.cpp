#include "runtime/real/launcher.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace rehearse::real {
namespace {

using namespace std::chrono_literals;

// A folder for one test, gone afterwards.
class LocalRun {
 public:
  explicit LocalRun(int workers) {
    options.workers = workers;
    options.run_directory = path_;
    options.time_limit = 20s;
    options.limits.stop_grace = 1s;
  }
  ~LocalRun() { std::filesystem::remove_all(path_); }

  RunOutcome run(Body body) {
    options.body = std::move(body);
    return run_local_job(options);
  }
  std::string left(const std::string& worker, const std::string& object) const {
    std::ifstream file(disk_path(path_, worker) + "/" + object, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  LocalJobOptions options;

 private:
  static std::string temporary() {
    std::string name = (std::filesystem::temp_directory_path() / "rehearse-XXXXXX").string();
    return ::mkdtemp(name.data());
  }
  std::string path_ = temporary();
};

Message text(std::string_view what) { return {MessageKind::user, bytes_of(what), {}}; }

std::string describe(const Envelope& envelope) {
  if (const auto* received = std::get_if<Received>(&envelope.what)) {
    return std::string(text_of(received->message.header));
  }
  return std::holds_alternative<PeerLost>(envelope.what) ? "lost" : "another event";
}

// Two processes ask and answer; both end by themselves, and all that was counted is summed up.
TEST(Process, TwoWorkersAskAndAnswer) {
  LocalRun run(2);
  const RunOutcome outcome = run.run([](World& world) {
    auto endpoint = world.net.open(world.self.name).or_throw();
    const Address other = world.net.find(world.self.rank == 0 ? "w1" : "w0", Time(5s)).or_throw();
    std::string heard;
    for (int round = 0; round < 3; ++round) {
      if (world.self.rank == 0) {
        endpoint->send(other, Lane::control, text(fmt::format("ping {}", round))).or_throw();
        heard += describe(endpoint->receive(Time(10s)).or_throw()) + ";";
      } else {
        heard += describe(endpoint->receive(Time(10s)).or_throw()) + ";";
        endpoint->send(other, Lane::control, text(fmt::format("pong {}", round))).or_throw();
      }
    }
    world.disk.put("heard", bytes_of(heard)).or_throw();
  });
  EXPECT_EQ(outcome.end, RunOutcome::End::done);
  EXPECT_TRUE(outcome.workers[0].finished);
  EXPECT_TRUE(outcome.workers[1].finished);
  EXPECT_EQ(run.left("w0", "heard"), "pong 0;pong 1;pong 2;");
  EXPECT_EQ(run.left("w1", "heard"), "ping 0;ping 1;ping 2;");
  EXPECT_EQ(outcome.counters.at("messages"), 6);
}

}  // namespace
}  // namespace rehearse::real
