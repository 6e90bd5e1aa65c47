// Jobs first in, first out on so many GPUs, in SimGrid 3.32: no log, no servers, nothing but the
// queue. The same program as simpy_fifo.py, to which each job is an actor.
//
//     g++ -O2 -o simgrid_fifo simgrid_fifo.cpp -lsimgrid
//     ./simgrid_fifo JOBS GPUS
//
// It needs SimGrid and a compiler (Debian: apt-get install g++ libsimgrid-dev). Prints JSON.

#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <utility>
#include <vector>

namespace sg = simgrid::s4u;

struct Job {
    double submit_s, duration_s;
    long gpus;
};

static std::vector<Job> jobs;
static std::deque<std::pair<long, sg::SemaphorePtr>> waiting; // GPUs, and what the job waits on
static long free_gpus;
static double total_s;

// One that does not fit holds up all behind it.
static void start_first() {
    while (!waiting.empty() && waiting.front().first <= free_gpus) {
        auto [gpus, start] = waiting.front();
        waiting.pop_front();
        free_gpus -= gpus;
        start->release();
    }
}

static void run(size_t number) {
    const Job& job = jobs[number];
    auto start = sg::Semaphore::create(0);
    waiting.emplace_back(job.gpus, start);
    start_first();
    start->acquire();
    sg::this_actor::sleep_for(job.duration_s);
    total_s += sg::Engine::get_clock() - job.submit_s;
    free_gpus += job.gpus;
    start_first();
}

static void submissions(sg::Host* host) {
    for (size_t number = 0; number < jobs.size(); ++number) {
        if (jobs[number].submit_s > sg::Engine::get_clock())
            sg::this_actor::sleep_until(jobs[number].submit_s);
        sg::Actor::create("job", host, run, number);
    }
}

int main(int argc, char** argv) {
    sg::Engine engine(&argc, argv);
    std::ifstream file(argv[1]);
    free_gpus = std::atol(argv[2]);
    for (Job job; file >> job.submit_s >> job.duration_s >> job.gpus;)
        jobs.push_back(job);
    auto* zone = sg::create_full_zone("cluster");
    auto* host = zone->create_host("host", "1Gf");
    host->seal();
    zone->seal();
    sg::Actor::create("submissions", host, submissions, host);
    const clock_t begun = clock();
    engine.run();
    const double loop_s = double(clock() - begun) / CLOCKS_PER_SEC;
    std::printf("{\"jobs\": %zu, \"jct_s\": %.17g, \"loop_cpu_s\": %.6f}\n", jobs.size(),
                total_s / jobs.size(), loop_s);
}
