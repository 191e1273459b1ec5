// A gRPC client that has nothing but the .proto files. Prints every event as one JSON document.
// Usage: node grpc_stream.mjs HOST:PORT PROTO_FOLDER REQUEST_JSON
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const [address, folder, request] = process.argv.slice(2);
const definition = protoLoader.loadSync("openresponses/v1/service.proto", {
  includeDirs: [folder],
  keepCase: true,
  enums: String,
  oneofs: true,
  defaults: true,
});
const { ResponsesService } = grpc.loadPackageDefinition(definition).openresponses.v1;
const client = new ResponsesService(address, grpc.credentials.createInsecure());
const events = [];
const call = client.StreamResponse(JSON.parse(request));
call.on("data", (event) => events.push(event));
call.on("error", (error) => {
  console.error(`${error.code} ${error.details}`);
  process.exit(1);
});
call.on("end", () => {
  console.log(JSON.stringify(events));
  client.close();
});
