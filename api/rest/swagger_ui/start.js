// Addresses are relative, for a service under a path of a proxy. The validator would send the document elsewhere.
SwaggerUIBundle({ url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
