//! Ids per second of this crate's generator and of the `bson` crate, with 1, 2 and 4 threads at once.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sequence::generator::Generator;
use sequence::object_id::{Layout, ObjectId};

/// The time in which each of `threads` threads makes `ids` ids.
fn measure<T>(threads: u64, ids: u64, generate: impl Fn() -> T + Sync) -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..ids {
                    black_box(generate());
                }
            });
        }
    });
    start.elapsed()
}

fn generate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("generate");
    group.sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    let machine = Generator::new(Layout::MachineProcess);
    let random = Generator::new(Layout::Random);
    for threads in [1, 2, 4] {
        group.throughput(Throughput::Elements(threads));
        group.bench_function(BenchmarkId::new("machine_process", threads), |bencher| {
            bencher.iter_custom(|ids| measure(threads, ids, || machine.generate()));
        });
        group.bench_function(BenchmarkId::new("random", threads), |bencher| {
            bencher.iter_custom(|ids| measure(threads, ids, || random.generate()));
        });
        group.bench_function(BenchmarkId::new("bson", threads), |bencher| {
            bencher.iter_custom(|ids| measure(threads, ids, bson::oid::ObjectId::new));
        });
    }
    group.finish();
}

fn text(criterion: &mut Criterion) {
    let id = ObjectId::from_bytes(*b"cairn-object");
    let digits = id.to_string();
    criterion.bench_function("parse", |bencher| bencher.iter(|| ObjectId::parse(black_box(&digits))));
    criterion.bench_function("print", |bencher| bencher.iter(|| black_box(id).to_string()));
}

criterion_group!(benches, generate, text);
criterion_main!(benches);
