//! Making a server a replica set: the settings of the builder, and what is rejected before anything is bound.

use std::net::SocketAddr;

use crate::replica_set::{ReplicaSet, parse_member, refuse_name};
use crate::server::{Error, ServerBuilder};

impl ServerBuilder {
    /// Makes the server a replica set of one member with this name. MongoDB's drivers send transactions and retryable writes to
    /// a replica set alone.
    ///
    /// Drivers then use the [advertised](Self::advertise) address in place of the one that they were given.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::{Error, Server};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shop = Server::builder(Client::in_memory()?).replica_set("shop").advertise("localhost:27017");
    /// assert!(shop.unbound().is_ok());
    /// let nameless = Server::builder(Client::in_memory()?).replica_set("").unbound();
    /// assert!(matches!(nameless, Err(Error::Setting(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn replica_set(mut self, name: impl Into<String>) -> Self {
        self.set_name = Some(name.into());
        self
    }

    /// The address at which clients reach the member of the [replica set](Self::replica_set), as `HOST:PORT`. It is the one that the
    /// server listens on if nothing is said: that must be an address that clients can connect to, or the path of the Unix socket if
    /// there is no other.
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertised = Some(address.into());
        self
    }

    /// Rejects what cannot be a replica set.
    pub(crate) fn check_replica_set(&self) -> Result<(), Error> {
        let Some(name) = &self.set_name else {
            return match &self.advertised {
                None => Ok(()),
                Some(address) => Err(Error::Setting(format!(
                    "{address:?} is advertised by a replica set, and there is none"
                ))),
            };
        };
        if let Some(refusal) = refuse_name(name) {
            return Err(Error::Setting(refusal));
        }
        if self.client.is_read_only() {
            let message = "a store that is open for reading only cannot be a replica set: drivers send its member writes";
            return Err(Error::Setting(message.to_owned()));
        }
        if let Some(address) = &self.advertised {
            parse_member(address).map_err(Error::Setting)?;
        } else if let Some(address) = self.tcp.filter(|address| address.ip().is_unspecified()) {
            let message = format!(
                "a replica set on {address} needs an address that clients can connect to: advertise it"
            );
            return Err(Error::Setting(message));
        }
        Ok(())
    }

    /// The replica set that the server is to be, if it is one. Its TCP address, if it has one, is `bound`.
    pub(crate) fn replica_set_at(&self, bound: Option<SocketAddr>) -> Result<Option<ReplicaSet>, Error> {
        self.check_replica_set()?;
        let Some(name) = &self.set_name else { return Ok(None) };
        Ok(Some(ReplicaSet::new(name.clone(), self.member(bound)?, self.client.clone())))
    }

    /// The address of the replica set's member.
    fn member(&self, bound: Option<SocketAddr>) -> Result<String, Error> {
        match (&self.advertised, bound, &self.unix_socket) {
            (Some(address), _, _) => parse_member(address).map_err(Error::Setting),
            (None, Some(address), _) => Ok(address.to_string()),
            // Drivers accept a path as a host, too.
            (None, None, Some(path)) => Ok(path.display().to_string()),
            (None, None, None) => {
                let message = "a replica set without an address needs one that is advertised";
                Err(Error::Setting(message.to_owned()))
            }
        }
    }
}
