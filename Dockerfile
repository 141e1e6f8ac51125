# The machine controller for Gardener, alone: no shell, no libraries.
# `cargo xtask image` writes the same image without a container engine.
FROM docker.io/library/rust:1.95.0-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo xtask image --root /image

FROM scratch
COPY --from=build /image /
WORKDIR /
ENV PATH=/
USER 65532:65532
EXPOSE 10259
# Gardener gives arguments and no command.
ENTRYPOINT ["/hostler", "machine-controller"]
