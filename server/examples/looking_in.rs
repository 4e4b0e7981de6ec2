//! Looking into a running application: a shop that takes orders, and serves its store on a Unix socket meanwhile.
//!
//! `cargo run --release -p cairndb-server --example looking_in` takes an order each second until Enter is pressed. In another
//! terminal, in the same folder: `cairn query shop.sock 'db.orders.countDocuments()'`, `cairn stats shop.sock`,
//! `cairn dump shop.sock shop-dump`, `cairn shell shop.sock`.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Client};
use cairndb_server::Server;

fn main() -> Result<(), Box<dyn Error>> {
    let (end, ended) = channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        drop(end);
    });
    writeln!(std::io::stdout(), "taking orders, to be looked at through shop.sock; Enter ends it")?;
    let taken = run(Path::new("shop-data"), Path::new("shop.sock"), Duration::from_secs(1), &ended)?;
    writeln!(std::io::stdout(), "{taken} orders were taken")?;
    Ok(())
}

/// Takes an order after each pause, until the other end of the channel is gone. Returns how many there were.
pub(crate) fn run(
    folder: &Path,
    socket: &Path,
    pause: Duration,
    ended: &Receiver<()>,
) -> Result<u64, Box<dyn Error>> {
    let client = Client::open(folder)?;
    let shop = client.database("shop");
    if shop.list_collection_names().run()?.is_empty() {
        let number = AutoIncrement::builder().field("number").build();
        shop.create_collection("orders").auto_increment(number).run()?;
    }
    let orders = shop.collection::<Document>("orders");
    // The server has threads of its own. The application goes on with its own handles, and needs no runtime.
    let running = Server::builder(client.clone()).unix_socket(socket).spawn()?;
    let mut taken = 0;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(pause) {
        orders.insert_one(doc! { "total": 20 }).run()?;
        taken += 1;
    }
    // A command that runs at this moment is still answered, and then the folder is closed in order.
    running.stop();
    client.close()?;
    Ok(taken)
}
