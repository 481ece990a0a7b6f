// Required before a server that would listen on every address of the machine: it listens on the loopback alone.
const { Server } = require("node:net");
const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  const isPort = typeof port !== "object" && Number.isInteger(Number(port));
  return isPort && typeof rest[0] !== "string"
    ? listen.call(this, port, "127.0.0.1", ...rest)
    : listen.call(this, port, ...rest);
};
