// The `rehearse` program: the built-in workloads behind the command line.

#include "workloads/workloads.hpp"

int main(int argc, char** argv) {
  rehearse::Program program("rehearse");
  rehearse::workloads::add_all(program);
  return program.main(argc, argv);
}
