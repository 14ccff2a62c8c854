if (System.getProperty("NAME") != null) System.setProperty("sponde.env.NAME", System.getProperty("NAME"));
